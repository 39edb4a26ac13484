//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tollgate_log::LogId;

const EXAMPLES: &str = "\
Examples:
  tollgate new shop                    make a small app with tests
  tollgate serve                       serve ./tollgate.toml, or ./routes without it
  tollgate serve shop/                 serve an app folder
  tollgate serve --dev shop/           the same, with each change at once and errors in the browser
  tollgate reload                      have the server take the changed configuration
  tollgate check --types shop/         check the types of its scripts, too
  tollgate check --print               show the whole configuration with its defaults
  tollgate test shop/                  run the tests of its scripts: shop/tests/*.luau
  tollgate load --once                 load what is not loaded yet, then end
  tollgate log cat --stream scores     what was recorded, as JSON lines
  tollgate log tail                    follow what a server records
  tollgate log verify data/log         check every checksum and digest
  tollgate sql \"SELECT count(*) FROM requests\"
  tollgate status --watch              how does the server do, and what is to be done
  tollgate audit                       is every record that was taken in the database?

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.";

/// An HTTP server for write-heavy services: the reply in microseconds, the record on disk before it, rows in
/// a database after it.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a small app to begin with: a configuration, a script with tests, a page
    New {
        /// A new folder, or an empty one
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Serve until SIGINT or SIGTERM
    Serve(ServeCommand),
    /// Have a running server take its configuration and scripts anew: all of it, or nothing changes
    Reload {
        /// The configuration file or folder that it serves, or its log folder
        #[arg(value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
    },
    /// Check the configuration and compile all scripts, without serving
    Check {
        /// A configuration file, or the folder of an app
        #[arg(value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
        /// Print the configuration as it is used: every key, absolute paths, variables replaced
        #[arg(long)]
        print: bool,
        /// Check the types of scripts and of their tests, too: of --!strict files all, of others what cannot
        /// but fail
        #[arg(long)]
        types: bool,
    },
    /// Run the tests of an app, tests/*.luau beside its configuration, without a server
    Test {
        /// A configuration file, or the folder of an app
        #[arg(value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
        /// Only tests that have this in their names
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        filter: String,
        /// Run them again whenever a file changes, until Ctrl-C
        #[arg(long)]
        watch: bool,
    },
    /// Load rows beside a server that leaves it to others, or what earlier runs left, until SIGINT or SIGTERM
    Load(LoadCommand),
    /// Look into the record log, follow, check and mend it; a running server is not disturbed
    #[command(subcommand)]
    Log(LogCommand),
    /// Ask the database by one statement that reads
    Sql {
        /// The statement
        #[arg(value_name = "SELECT ...")]
        statement: String,
        /// Which database is asked, where there are several; the first otherwise
        #[arg(long, value_name = "NAME")]
        sink: Option<String>,
        /// A configuration file, or the folder of an app
        #[arg(long, value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
        /// How rows are printed
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Show how a running server does, on one screen: what is wrong and what to do, rates, latency, log,
    /// sinks
    Status {
        /// The configuration file or folder that it serves, or its log folder
        #[arg(value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
        /// Show it again each second, until Ctrl-C
        #[arg(long, conflicts_with = "json")]
        watch: bool,
        /// Print everything that is known as one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare what the log holds with what the database says it has
    Audit {
        /// A configuration file, or the folder of an app
        #[arg(value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
    },
}

/// What a server is told beside its configuration: it holds for each one that it loads.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// A configuration file, or the folder of an app
    #[arg(value_name = "CONFIG|DIR", default_value = ".")]
    pub(crate) config: PathBuf,
    /// Listen there, whatever the configuration says; may be repeated
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Record only: a later start without this loads the rows
    #[arg(long)]
    pub(crate) no_load: bool,
    /// Reload when files change, and show errors with their source in replies: on loopback addresses only
    #[arg(long)]
    pub(crate) dev: bool,
    /// With --dev: let whoever reaches other addresses see the source, too
    #[arg(long, requires = "dev")]
    pub(crate) dev_anywhere: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadCommand {
    /// A configuration file, or the folder of an app
    #[arg(value_name = "CONFIG|DIR", default_value = ".")]
    pub(crate) config: PathBuf,
    /// Only this sink
    #[arg(long, value_name = "NAME")]
    pub(crate) sink: Option<String>,
    /// End as soon as everything that may be read is loaded
    #[arg(long)]
    pub(crate) once: bool,
    /// Load the segments that other machines shipped to this folder. Streams and types come from the segments
    #[arg(long, value_name = "DIR", conflicts_with_all = ["retry_rejects", "skip"])]
    pub(crate) from: Option<String>,
    /// The folder of fetched segments. It is emptied at the start [default: `fetched`, beside the log folder]
    #[arg(long, value_name = "DIR", requires = "from")]
    pub(crate) spool: Option<PathBuf>,
    /// Try the rejects of the database again, then end: what fits its table by now becomes a row
    #[arg(long, conflicts_with = "once")]
    pub(crate) retry_rejects: bool,
    /// Give up the next records of a log, then end: they become a gap, and what is behind them is loaded
    #[arg(long, num_args = 2, value_names = ["LOG", "FIRST-LAST"], conflicts_with_all = ["once", "retry_rejects"])]
    pub(crate) skip: Option<Vec<String>>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// List logs and their segments
    Ls {
        /// A log folder, the folder of an app, or a configuration file
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Print records
    Cat {
        /// A log folder, the folder of an app, or a configuration file
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// Only records of this stream
        #[arg(long, value_name = "NAME")]
        stream: Option<String>,
        /// Only this log
        #[arg(long, value_name = "ID")]
        log: Option<LogId>,
        /// How records are printed
        #[arg(long, value_enum, default_value_t = RecordFormat::Json)]
        format: RecordFormat,
    },
    /// Print the last records and follow what a server writes, as far as it is synced, until Ctrl-C
    Tail {
        /// A log folder, the folder of an app, or a configuration file
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// Only records of this stream
        #[arg(long, value_name = "NAME")]
        stream: Option<String>,
        /// How records are printed
        #[arg(long, value_enum, default_value_t = RecordFormat::Text)]
        format: RecordFormat,
        /// Begin so many records before the end, those of other streams counted
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
        lines: u64,
    },
    /// Check every checksum, chain and digest, and compare with what was loaded
    Verify {
        /// A log folder, the folder of an app, or a configuration file
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Show one segment file field by field, with what holds and what does not
    Dump {
        /// The segment
        file: PathBuf,
    },
    /// Mend what dead servers left, as a start would, and set damage aside; nothing is deleted
    Repair {
        /// A log folder, the folder of an app, or a configuration file
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordFormat {
    /// One readable line per record
    Text,
    /// One JSON object per line
    Json,
    /// The combined access-log format of Apache and nginx
    Combined,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people, up to 10,000 rows
    Table,
    /// Comma-separated values with a header (RFC 4180)
    Csv,
    /// One JSON object per line
    Json,
}

/// Options that do not fit together, which the parser of the command line cannot see.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) &'static str);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_folder_here_is_the_default() {
        let Command::Serve(serve) = Cli::parse_from(["tollgate", "serve"]).command else { panic!() };
        assert_eq!(serve.config, PathBuf::from("."));
    }

    #[test]
    fn a_wrong_use_is_code_two() {
        for wrong in
            [&["tollgate", "serv"][..], &["tollgate", "sql"], &["tollgate", "log", "cat", "--log", "x"]]
        {
            assert_eq!(Cli::try_parse_from(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
    }
}
