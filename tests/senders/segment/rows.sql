SELECT library, type, event, user_id, anonymous_id, properties, traits,
       timestamp BETWEEN '2026' AND '2200' AS is_timed, sent_at BETWEEN '2026' AND '2200' AS is_sent
FROM track ORDER BY library, type
