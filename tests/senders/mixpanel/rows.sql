SELECT library, event, distinct_id, json_extract(properties, '$.total') AS total,
       time BETWEEN '2026' AND '2200' AS is_timed
FROM track ORDER BY library, event, total
