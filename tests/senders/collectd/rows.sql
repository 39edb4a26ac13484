SELECT DISTINCT host, plugin, type, interval, names, kinds,
       json_type("values") AS "values", json_array_length("values") AS count,
       time BETWEEN '2026' AND '2200' AS is_timed
FROM samples WHERE plugin IN ('load', 'uptime') ORDER BY plugin
