SELECT CASE WHEN client LIKE '%aiohttp/%' THEN 'aiohttp' ELSE substr(client, 1, instr(client, '/') - 1) END AS client,
       kind, value, type
FROM events ORDER BY 1, value, kind
