SELECT 'github' AS sender, delivery AS id, event || ' ' || action AS type, repository AS detail, NULL AS at FROM github
UNION ALL
SELECT 'stripe', id, type, json_extract(object, '$.amount') || ' ' || is_live, created FROM stripe
UNION ALL
SELECT 'slack', event_id, type, json_extract(event, '$.text'), sent_at FROM slack
ORDER BY sender, id
