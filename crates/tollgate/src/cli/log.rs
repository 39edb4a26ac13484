//! The arguments of `tollgate log`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tollgate_log::LogId;

use super::place::ConfigPath;
use super::record::{RecordId, Since};

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// List logs and their segments
    Ls {
        #[command(flatten)]
        dir: ConfigPath,
    },
    /// Print the records of all logs
    Cat {
        #[command(flatten)]
        read: ReadCommand,
        /// Print only this log
        #[arg(long, value_name = "ID", conflicts_with = "position")]
        log: Option<LogId>,
        /// The format of the records
        #[arg(long, value_enum, default_value_t = RecordFormat::Json)]
        format: RecordFormat,
    },
    /// Print the last records, then each new record once it is synced, until Ctrl-C
    Tail {
        #[command(flatten)]
        read: ReadCommand,
        /// The format of the records
        #[arg(long, value_enum, default_value_t = RecordFormat::Text)]
        format: RecordFormat,
        /// Begin this many records before the end (default: 10). Records of other streams count too
        #[arg(long, short = 'n', value_name = "COUNT", conflicts_with_all = ["from", "since"])]
        lines: Option<u64>,
    },
    /// Check all checksums, chains and digests, and compare the logs with the database
    Verify {
        #[command(flatten)]
        dir: ConfigPath,
    },
    /// Accept the damage of segments, so that it is no longer reported. Records are not given up by this
    Accept {
        /// The files of the segments, as `tollgate status` and `log verify` print them
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Show all fields of one segment file, and mark each problem
    Dump {
        /// The segment file
        file: PathBuf,
    },
    /// Repair the logs of dead servers, as a start does. Damaged segments are set aside, no file is deleted
    Repair {
        #[command(flatten)]
        dir: ConfigPath,
        /// Print the repairs without doing them
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which records are read, and where reading begins.
#[derive(Debug, Args)]
pub(crate) struct ReadCommand {
    #[command(flatten)]
    pub(crate) dir: ConfigPath,
    /// Print only records of this stream
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// Begin with this record, then print the logs after its log
    #[arg(long, value_name = "LOG:SEQUENCE")]
    pub(crate) from: Option<RecordId>,
    /// Begin with the records of this time (RFC 3339), or of this long ago (90s, 1h, 7d)
    #[arg(long, value_name = "TIME|DURATION", conflicts_with = "from")]
    pub(crate) since: Option<Since>,
    /// Store the position of the last printed record in this file. Begin there if the file exists
    #[arg(long, value_name = "FILE")]
    pub(crate) position: Option<PathBuf>,
    /// Leave out the header line of --format csv
    #[arg(long)]
    pub(crate) no_header: bool,
}

/// The format of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordFormat {
    /// One readable line per record
    Text,
    /// One JSON object per line: log, sequence, stream, then the columns
    Json,
    /// One JSON object per line: `_log`, `_seq`, `_stream`, then the columns in `row`
    Envelope,
    /// Comma-separated values with a header line (RFC 4180), of one stream
    Csv,
    /// The combined access-log format of Apache and nginx
    Combined,
}
