//! The statement that frees the name of a column for a column of another type.

/// Returns the statement. `table` is quoted.
pub(crate) fn rename_statement(table: &str, column: &str) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    format!("ALTER TABLE {table} RENAME COLUMN {} TO {}", quoted(column), quoted(&format!("{column}_old")))
}
