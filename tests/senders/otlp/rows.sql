SELECT service, 'span' AS item, name, attributes, length(trace_id) AS value,
       started BETWEEN '2026' AND ended AND ended < '2200' AS is_timed
FROM spans
UNION ALL
SELECT service, 'log ' || severity, body, attributes, NULL, at BETWEEN '2026' AND '2200' FROM log_records
UNION ALL
SELECT service, kind, metric, attributes, coalesce(value, json_extract(point, '$.sum')), at BETWEEN '2026' AND '2200'
FROM data_points
UNION ALL
SELECT NULL, 'protobuf', signal, NULL, length(request) > 100, NULL FROM protobuf
ORDER BY service, item
