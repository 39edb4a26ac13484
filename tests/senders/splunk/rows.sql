SELECT status, host, source, sourcetype, event, time BETWEEN '2026' AND '2200' AS is_timed
FROM hec ORDER BY status, event
