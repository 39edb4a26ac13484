SELECT kind, value, type, substr(client, 1, 15) AS client FROM events ORDER BY value
