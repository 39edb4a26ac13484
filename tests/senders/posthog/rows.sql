SELECT library, event, distinct_id, json_extract(properties, '$.total') AS total,
       timestamp BETWEEN '2026' AND '2200' AS is_timed
FROM captures ORDER BY library
