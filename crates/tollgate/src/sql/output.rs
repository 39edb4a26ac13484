//! The rows of an answer, in the format that was asked for.

use std::io::{self, Write};
use std::mem;
use std::ops::ControlFlow;

use comfy_table::Table;

use crate::cli::Format;
use crate::print::{printable, push_formatted, push_json_float, push_json_string, table, write_table};

/// Maximum number of rows of a printed table. The table is held in memory to find the widths of its columns.
pub(super) const TABLE_ROWS_MAX: usize = 10_000;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SqlCell {
    Null,
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
}

/// Prints rows.
pub(super) struct RowPrinter<'a> {
    out: &'a mut dyn Write,
    format: Format,
    names: Vec<String>,
    /// The rows so far. Other formats than a table print each row at once.
    table: Table,
    rows: usize,
    is_cut: bool,
}

impl<'a> RowPrinter<'a> {
    pub(super) fn new(format: Format, out: &'a mut dyn Write) -> Self {
        Self { out, format, names: Vec::new(), table: Table::new(), rows: 0, is_cut: false }
    }

    /// Begins the answer with the names of its columns.
    pub(super) fn begin(&mut self, names: Vec<String>) -> io::Result<()> {
        self.names = names;
        match self.format {
            Format::Table => {
                let header: Vec<_> = self.names.iter().map(|name| printable(name)).collect();
                self.table = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
                Ok(())
            }
            Format::Csv => {
                let header: Vec<_> = self.names.iter().map(|name| csv_field(name)).collect();
                writeln!(self.out, "{}", header.join(","))
            }
            Format::Json => Ok(()),
        }
    }

    /// Prints a row. `Break`: no further row is printed.
    pub(super) fn row(&mut self, cells: &[SqlCell]) -> io::Result<ControlFlow<()>> {
        match self.format {
            Format::Table if self.rows == TABLE_ROWS_MAX => {
                self.is_cut = true;
                return Ok(ControlFlow::Break(()));
            }
            Format::Table => drop(self.table.add_row(cells.iter().map(|cell| printable(&plain(cell))))),
            Format::Csv => {
                let fields: Vec<_> = cells.iter().map(|cell| csv_field(&plain(cell))).collect();
                writeln!(self.out, "{}", fields.join(","))?;
            }
            Format::Json => writeln!(self.out, "{}", json_line(&self.names, cells))?,
        }
        self.rows += 1;
        Ok(ControlFlow::Continue(()))
    }

    /// Ends the answer.
    pub(super) fn end(mut self) -> io::Result<()> {
        if self.format != Format::Table {
            return Ok(());
        }
        write_table(self.out, &mut mem::take(&mut self.table))?;
        let rows = self.rows;
        if self.is_cut {
            return writeln!(self.out, "({rows} rows, and there are more: --format csv or json prints all)");
        }
        writeln!(self.out, "({rows} {})", if rows == 1 { "row" } else { "rows" })
    }
}

fn plain(cell: &SqlCell) -> String {
    match cell {
        SqlCell::Null => String::new(),
        SqlCell::Int(number) => number.to_string(),
        SqlCell::Float(number) => format!("{number:?}"),
        SqlCell::Bool(value) => value.to_string(),
        SqlCell::Text(text) => text.clone(),
    }
}

fn json_line(names: &[String], cells: &[SqlCell]) -> String {
    let mut line = String::new();
    for (index, (name, cell)) in names.iter().zip(cells).enumerate() {
        line.push(if index == 0 { '{' } else { ',' });
        push_json_string(&mut line, name);
        line.push(':');
        match cell {
            SqlCell::Null => line.push_str("null"),
            SqlCell::Int(number) => push_formatted(&mut line, format_args!("{number}")),
            SqlCell::Float(number) => push_json_float(&mut line, *number),
            SqlCell::Bool(value) => push_formatted(&mut line, format_args!("{value}")),
            SqlCell::Text(text) => push_json_string(&mut line, text),
        }
    }
    line + "}"
}

/// Returns a field, quoted where RFC 4180 requires it.
fn csv_field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
