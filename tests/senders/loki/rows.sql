SELECT line, labels, at BETWEEN '2026' AND '2200' AS is_timed FROM log_lines ORDER BY line
