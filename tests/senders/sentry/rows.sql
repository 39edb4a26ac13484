SELECT project, platform, level, message, release, json_extract(exception, '$.values[0].type') AS exception
FROM errors ORDER BY project, exception
