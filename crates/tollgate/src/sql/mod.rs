//! `tollgate sql`: runs one statement that reads, on the database that the loader fills.

mod output;
mod postgres;
mod sqlite;

use std::process::ExitCode;

use anyhow::bail;
use tollgate_load::SinkKind;

use crate::cli::Format;
use crate::config::Config;
use crate::print::to_stdout;
use output::RowPrinter;

/// Runs a statement and prints its rows.
pub(crate) fn run(
    config: &Config,
    sink: Option<&str>,
    statement: &str,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let sink = &config.chosen(sink)?[0];
    to_stdout(|out| {
        match &sink.options.kind {
            SinkKind::Sqlite { path } => sqlite::query(path, statement, format, out)?,
            SinkKind::Postgres(options) => {
                postgres::query(options, statement, RowPrinter::new(format, out))?;
            }
            SinkKind::Kafka(_) => {
                bail!("sink {} is a Kafka cluster, which has no SQL: choose another sink", sink.name());
            }
            SinkKind::Parquet(_) | SinkKind::Iceberg(_) => {
                bail!(
                    "sink {} has Parquet files, which have no SQL: use an engine that reads them, such as \
                     DuckDB",
                    sink.name()
                );
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
