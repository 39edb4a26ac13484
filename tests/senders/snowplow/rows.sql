SELECT substr(tracker, 1, instr(tracker, '-') - 1) AS tracker, event, app, page,
       created BETWEEN '2026' AND '2200' AS is_timed
FROM snowplow ORDER BY 1, page
