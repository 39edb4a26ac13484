SELECT mode, type, source, json_extract(data, '$.total') AS total, length(id) > 0 AS has_id,
       time BETWEEN '2026' AND '2200' AS is_timed
FROM (SELECT 'events' AS mode, * FROM events UNION ALL SELECT 'binary', * FROM binary_events)
ORDER BY total
