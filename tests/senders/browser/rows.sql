SELECT kind, value, substr(type, 1, 30) AS type, substr(origin, 1, 21) AS origin, site FROM events
UNION ALL
SELECT 'report', NULL, directive, substr(document, 1, 21), blocked FROM reports
ORDER BY value, kind
