SELECT type, event, user_id, anonymous_id, json_extract(properties, '$.total') AS total,
       json_extract(coalesce(traits, context_traits), '$.plan') AS plan,
       coalesce(timestamp, original_timestamp) BETWEEN '2026' AND '2200' AS is_timed,
       sent_at BETWEEN '2026' AND '2200' AS is_sent
FROM track ORDER BY type, user_id
