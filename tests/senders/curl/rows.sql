SELECT kind, value, type, NULL AS bytes FROM events
UNION ALL
SELECT name, note, CASE WHEN length(content) < 100 THEN CAST(content AS TEXT) END, length(content) FROM files
ORDER BY bytes, value, kind, type
