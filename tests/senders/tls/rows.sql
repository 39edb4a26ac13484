SELECT path, version, client, count(*) AS requests FROM requests GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
