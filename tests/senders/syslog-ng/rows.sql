SELECT host, facility, priority, program, pid, message, substr(at, 5, 9) AS day FROM syslog ORDER BY message
