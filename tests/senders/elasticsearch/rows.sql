SELECT collection, CASE WHEN length(id) < 36 THEN id END AS id, document FROM documents ORDER BY document
