//! How to free the name of a column for a column of another type.

/// Returns the remedy in a database. `table` is quoted.
pub(crate) fn rename_remedy(table: &str, column: &str) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (old, new) = (quoted(column), quoted(&format!("{column}_old")));
    format!("run `ALTER TABLE {table} RENAME COLUMN {old} TO {new}`")
}
