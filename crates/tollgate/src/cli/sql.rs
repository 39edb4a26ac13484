//! The arguments of `tollgate sql`.

use clap::{Args, ValueEnum};

use super::place::ConfigOption;

#[derive(Debug, Args)]
pub(crate) struct SqlCommand {
    /// The SQL statement
    #[arg(value_name = "SELECT ...")]
    pub(crate) statement: String,
    /// The sink whose database is read [default: the first sink]
    #[arg(long, value_name = "NAME")]
    pub(crate) sink: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigOption,
    /// The format of the rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

/// The formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people, at most 10,000 rows
    Table,
    /// Comma-separated values with a header (RFC 4180)
    Csv,
    /// One JSON object per line
    Json,
}
