SELECT 'posthog' AS sdk, event, library, json_extract(properties, '$.total') AS total FROM captures
UNION ALL
SELECT 'mixpanel', event, library, json_extract(properties, '$.total') FROM track
UNION ALL
SELECT 'snowplow', event, substr(tracker, 1, 3), NULL FROM snowplow
ORDER BY sdk, event
