SELECT client, kind, value, type FROM (
  SELECT CASE WHEN client LIKE 'axios/%' THEN 'axios' ELSE client END AS client, kind, value, type FROM events
) ORDER BY client, value
