//! A statement on the file of SQLite. The connection cannot write, because the file is opened read-only. A
//! statement that writes is refused before it runs, with an error that names the statement.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Statement};

use super::output::{RowPrinter, SqlCell};
use crate::cli::Format;
use crate::config::denial;
use crate::print::blob;

/// Time that a statement waits for a checkpoint of the loader.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a statement and prints its rows.
pub(super) fn query(database: &Path, text: &str, format: Format, out: &mut dyn Write) -> anyhow::Result<()> {
    answer(database, text, RowPrinter::new(format, out)).map_err(plainly)
}

/// Reduces an error to SQLite's own message, without the error code after it. An error without such a message
/// is not changed.
fn plainly(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(rusqlite::Error::SqliteFailure(_, Some(message))) => anyhow::Error::msg(message.clone()),
        _ => error,
    }
}

fn answer(database: &Path, text: &str, mut printer: RowPrinter<'_>) -> anyhow::Result<()> {
    let connection = open(database)?;
    let mut statement = prepare(&connection, text)?;
    let names: Vec<_> = statement.column_names().map(str::to_owned).collect();
    let columns = names.len();
    printer.begin(names)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let cells = (0..columns).map(|index| row.get_ref(index).map(cell));
        if printer.row(&cells.collect::<rusqlite::Result<Vec<_>>>()?)?.is_break() {
            break;
        }
    }
    Ok(printer.end()?)
}

fn open(database: &Path) -> anyhow::Result<Connection> {
    if let Some(refusal) = denial(database) {
        bail!(refusal);
    }
    if !database.is_file() {
        bail!("{} does not exist: no row was loaded yet", database.display());
    }
    let context = || format!("cannot open {}", database.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).with_context(context)?;
    connection.busy_timeout(BUSY_TIMEOUT).with_context(context)?;
    connection.pragma_update(None, "query_only", true).with_context(context)?;
    Ok(connection)
}

fn prepare<'a>(connection: &'a Connection, text: &str) -> anyhow::Result<Statement<'a>> {
    let statement = match connection.prepare(text) {
        Err(rusqlite::Error::MultipleStatement) => bail!("found more than one statement, allowed is one"),
        Err(rusqlite::Error::SqlInputError { msg, offset, .. }) => match usize::try_from(offset) {
            Ok(offset) => bail!("{msg}, at byte {offset} of the statement"),
            Err(_) => bail!(msg),
        },
        statement => statement?,
    };
    if !statement.readonly() {
        bail!("the statement writes, allowed is a statement that only reads");
    }
    if statement.column_count() == 0 {
        bail!("the statement returns no rows, allowed is a statement that returns rows");
    }
    Ok(statement)
}

fn cell(value: ValueRef<'_>) -> SqlCell {
    match value {
        ValueRef::Null => SqlCell::Null,
        ValueRef::Integer(number) => SqlCell::Int(number),
        ValueRef::Real(number) => SqlCell::Float(number),
        ValueRef::Text(text) => SqlCell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlCell::Text(blob(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::TABLE_ROWS_MAX;
    use super::*;

    fn database() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("t.sqlite")).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL;
                 CREATE TABLE t (i INTEGER, r REAL, s TEXT, b BLOB);
                 INSERT INTO t VALUES (9007199254740993, 0.5, 'a,\"b\"' || char(10, 27), x'00ff'), (NULL, 1e300, '', NULL);",
            )
            .unwrap();
        dir
    }

    fn ask(statement: &str, format: Format) -> Result<String, String> {
        let dir = database();
        let mut out = Vec::new();
        query(&dir.path().join("t.sqlite"), statement, format, &mut out)
            .map_err(|error| format!("{error:#}"))?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn rows_are_printed_in_each_format() {
        let check = |format, expected: &str| assert_eq!(ask("SELECT * FROM t", format).unwrap(), expected);
        check(
            Format::Table,
            "i                 r      s              b\n\
             9007199254740993  0.5    a,\"b\"\\n\\u{1b}  x'00ff'\n\
             \x20                 1e300\n\
             (2 rows)\n",
        );
        check(Format::Csv, "i,r,s,b\n9007199254740993,0.5,\"a,\"\"b\"\"\n\u{1b}\",x'00ff'\n,1e300,,\n");
        check(
            Format::Json,
            "{\"i\":9007199254740993,\"r\":0.5,\"s\":\"a,\\\"b\\\"\\n\\u001b\",\"b\":\"x'00ff'\"}\n\
             {\"i\":null,\"r\":1e300,\"s\":\"\",\"b\":null}\n",
        );
    }

    #[test]
    fn an_empty_result_has_its_header() {
        assert_eq!(ask("SELECT i FROM t WHERE 0", Format::Table).unwrap(), "i\n(0 rows)\n");
        assert_eq!(ask("SELECT i FROM t WHERE 0", Format::Csv).unwrap(), "i\n");
        assert_eq!(ask("SELECT i FROM t WHERE 0", Format::Json).unwrap(), "");
    }

    #[test]
    fn a_long_table_says_that_there_is_more() {
        let rows = |count: usize| {
            format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n"
            )
        };
        let long = ask(&rows(TABLE_ROWS_MAX + 1), Format::Table).unwrap();
        assert!(
            long.ends_with("\n10000\n(10000 rows, and there are more: --format csv or json prints all)\n")
        );
        let whole = ask(&rows(TABLE_ROWS_MAX), Format::Table).unwrap();
        assert!(whole.ends_with("\n10000\n(10000 rows)\n"));
    }

    #[test]
    fn a_statement_that_is_no_single_read_is_refused() {
        let check =
            |statement, expected: &str| assert_eq!(ask(statement, Format::Table).unwrap_err(), expected);
        let writes = "the statement writes, allowed is a statement that only reads";
        let no_rows = "the statement returns no rows, allowed is a statement that returns rows";
        check("DELETE FROM t", writes);
        check("INSERT INTO t (i) VALUES (1) RETURNING i", writes);
        check("DROP TABLE t", writes);
        check("SELECT 1; SELECT 2", "found more than one statement, allowed is one");
        check("SELECT 1; DELETE FROM t", "found more than one statement, allowed is one");
        check("", no_rows);
        check("-- nothing", no_rows);
        check("BEGIN", no_rows);
        check("ATTACH '/tmp/other.sqlite' AS other", no_rows);
        check("SELECT x FROM t", "no such column: x, at byte 7 of the statement");
        check("SELECT * FROM u", "no such table: u");
    }

    #[test]
    fn vacuum_into_another_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy.sqlite");
        assert!(ask(&format!("VACUUM INTO '{}'", copy.display()), Format::Table).is_err());
        assert!(!copy.exists());
    }

    #[test]
    fn a_missing_database_is_named() {
        let error =
            query(Path::new("/nowhere/t.sqlite"), "SELECT 1", Format::Table, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "/nowhere/t.sqlite does not exist: no row was loaded yet");
    }
}
