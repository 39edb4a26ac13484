SELECT user_id, event, json_extract(properties, '$.total') AS total,
       substr(library, 1, instr(library, '/') - 1) AS library, time BETWEEN '2026' AND '2200' AS is_timed
FROM events ORDER BY user_id
