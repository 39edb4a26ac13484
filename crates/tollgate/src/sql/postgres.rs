//! A statement on PostgreSQL, in a read-only transaction.

use std::io;
use std::ops::ControlFlow;

use tollgate_load::{PostgresOptions, ReadAnswer, ReadColumn, ReadKind, read_postgres};

use super::output::{RowPrinter, SqlCell};

/// Runs a statement and prints its rows.
pub(super) fn query(options: &PostgresOptions, text: &str, printer: RowPrinter<'_>) -> anyhow::Result<()> {
    let mut answer = Printing { printer, kinds: Vec::new() };
    read_postgres(options, text, &mut answer)?;
    Ok(answer.printer.end()?)
}

/// Prints the rows that arrive.
struct Printing<'a> {
    printer: RowPrinter<'a>,
    kinds: Vec<ReadKind>,
}

impl ReadAnswer for Printing<'_> {
    fn columns(&mut self, columns: &[ReadColumn]) -> io::Result<()> {
        self.kinds = columns.iter().map(|column| column.kind).collect();
        self.printer.begin(columns.iter().map(|column| column.name.clone()).collect())
    }

    fn row(&mut self, values: &[Option<&str>]) -> io::Result<ControlFlow<()>> {
        let cells = values.iter().zip(&self.kinds).map(|(value, kind)| cell(*value, *kind));
        self.printer.row(&cells.collect::<Vec<_>>())
    }
}

fn cell(value: Option<&str>, kind: ReadKind) -> SqlCell {
    let Some(text) = value else { return SqlCell::Null };
    match kind {
        ReadKind::Bool => SqlCell::Bool(text == "t"),
        ReadKind::Number => number(text).unwrap_or_else(|| SqlCell::Text(text.to_owned())),
        ReadKind::Text => SqlCell::Text(text.to_owned()),
    }
}

/// Reads a number. `NaN` and `Infinity` stay texts, because JSON has no such numbers.
fn number(text: &str) -> Option<SqlCell> {
    let integer = text.parse().ok().map(SqlCell::Int);
    integer.or_else(|| text.parse::<f64>().ok().filter(|number| number.is_finite()).map(SqlCell::Float))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_server_is_a_cell_by_its_type() {
        let check = |text, kind, expected| assert_eq!(cell(text, kind), expected, "{text:?}");
        check(None, ReadKind::Number, SqlCell::Null);
        check(Some("9007199254740993"), ReadKind::Number, SqlCell::Int(9_007_199_254_740_993));
        check(Some("0.5"), ReadKind::Number, SqlCell::Float(0.5));
        check(Some("NaN"), ReadKind::Number, SqlCell::Text("NaN".to_owned()));
        check(Some("t"), ReadKind::Bool, SqlCell::Bool(true));
        check(Some("f"), ReadKind::Bool, SqlCell::Bool(false));
        check(Some("12"), ReadKind::Text, SqlCell::Text("12".to_owned()));
    }
}
