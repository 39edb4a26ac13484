SELECT 'posthog' AS sdk, event, library, json_extract(properties, '$.total') AS total FROM posthog
UNION ALL
SELECT 'mixpanel', event, library, json_extract(properties, '$.total') FROM track
UNION ALL
SELECT 'snowplow', event, substr(tracker, 1, 2), NULL FROM snowplow
UNION ALL
SELECT 'segment', event, type, json_extract(properties, '$.total') FROM segment
UNION ALL
SELECT 'sentry ' || project, level, platform, message FROM errors
ORDER BY sdk, event
