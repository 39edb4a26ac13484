SELECT ticker AS name, price AS value, delivery, sent_at AS at FROM deliveries
UNION ALL
SELECT 'order', order_number, message, published FROM messages
ORDER BY name
