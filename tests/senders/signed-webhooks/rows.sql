SELECT service, delivery, n FROM deliveries ORDER BY n, service
