//! The command line.

mod cert;
mod place;
mod volumes;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use tollgate_log::{LogId, Sequence};
use tollgate_ship::PutChecksum;
use tollgate_value::parse_timestamp;

pub(crate) use cert::CertCommand;
pub(crate) use place::{ConfigOption, ConfigPath};
pub(crate) use volumes::{FolderArguments, LoadVolume, TargetArguments, VolumeCommand};

/// The version with its commit and features, which the build script passes on.
const VERSION: &str = env!("TOLLGATE_VERSION");

const EXAMPLES: &str = "\
Examples:
  tollgate new shop                    make a small app with tests
  tollgate serve                       serve ./tollgate.toml, or ./routes without it
  tollgate serve shop/                 serve the app in a folder
  tollgate serve --https shop/         serve it with TLS too, on https://localhost:8443
  tollgate serve --dev shop/           serve it, reload after each change, show errors in replies
  tollgate reload                      make the running server reload its configuration
  tollgate check --types shop/         check the configuration, and the types of scripts
  tollgate check --print               print the whole configuration, with defaults
  tollgate check --sample body.json    show which rows and rejects a captured body would make
  tollgate test shop/                  run the tests in shop/tests/*.luau
  tollgate load --once                 load all records into the database, then end
  tollgate ship --to /mnt/handover     copy all sealed segments to a folder, then end
  tollgate log cat --stream scores     print the records of a stream as JSON lines
  tollgate log tail                    follow the records of a running server
  tollgate log verify data/log         check all checksums and digests of a log
  tollgate sql \"SELECT count(*) FROM requests\"
  tollgate status --watch              show the state, and what to do, each second
  tollgate status --web                show the state in a browser on this machine
  tollgate auth password anna >>users  add a user to a password file
  tollgate audit                       check that the database has every record
  tollgate audit --store /mnt/handover count the records of this side of a hand-over
  tollgate cert ls                     list the certificates, and when each one is renewed

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.";

/// An HTTP server for services that write a lot. It answers in microseconds, writes each record to disk
/// before the reply, and loads the records into a database.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version = VERSION, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a small example app: routes, a script with tests, and a page
    New {
        /// The folder of the app, new or empty
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Serve requests until SIGINT or SIGTERM
    Serve(ServeCommand),
    /// Make a running server reload its configuration and scripts. After any fault nothing changes
    Reload {
        #[command(flatten)]
        config: ConfigPath,
    },
    /// Check the configuration and compile all scripts, without serving requests
    Check {
        #[command(flatten)]
        config: ConfigPath,
        /// Print the whole configuration: every key, absolute paths, values of variables
        #[arg(long)]
        print: bool,
        /// Also check the types of scripts and tests. Files with --!strict are checked fully. In other files
        /// only errors that are certain are reported
        #[arg(long)]
        types: bool,
        /// Check the store of each [ship.NAME] instead: whether it answers, and creates each object only once
        #[arg(long)]
        store: bool,
        /// Also compare the streams with the tables of each [sink.NAME], and with the log of a running server
        #[arg(long)]
        sinks: bool,
        /// Show instead which rows and rejects a captured request body would make. `-` reads stdin
        #[arg(long, value_name = "FILE", conflicts_with_all = ["print", "types", "store", "sinks"])]
        sample: Option<PathBuf>,
        #[command(flatten)]
        sample_arguments: SampleArguments,
    },
    /// Run the tests of an app (tests/*.luau in its folder), without a server
    Test {
        #[command(flatten)]
        config: ConfigPath,
        /// Run only tests with this text in their names
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        filter: String,
        /// Run the tests again after each change of a file, until Ctrl-C
        #[arg(long)]
        watch: bool,
    },
    /// Load records into the databases until SIGINT or SIGTERM, if the server does not load or does not run
    Load(LoadCommand),
    /// Copy all sealed segments of the log to a folder or a store, then end. A running server may go on
    Ship(ShipCommand),
    /// Show, follow, check or repair the record log. Only repair needs the server to be stopped
    #[command(subcommand)]
    Log(LogCommand),
    /// Run one SQL statement that reads, on the database of a sink
    Sql {
        /// The SQL statement
        #[arg(value_name = "SELECT ...")]
        statement: String,
        /// The sink whose database is read [default: the first sink]
        #[arg(long, value_name = "NAME")]
        sink: Option<String>,
        #[command(flatten)]
        config: ConfigOption,
        /// The format of the rows
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Show the state of a running server: what is wrong and what to do, rates, latency, log, sinks
    Status {
        #[command(flatten)]
        config: ConfigPath,
        /// Show the state again each second, until Ctrl-C
        #[arg(long, conflicts_with = "json")]
        watch: bool,
        /// Show the state in a browser on this machine: prints an address, and serves it until Ctrl-C
        #[arg(long, conflicts_with_all = ["watch", "json", "exit_code"])]
        web: bool,
        /// The port of --web on 127.0.0.1 [default: a free port]
        #[arg(long, value_name = "PORT", requires = "web", default_value_t = 0, hide_default_value = true)]
        port: u16,
        /// Print the whole state as one line of JSON
        #[arg(long)]
        json: bool,
        /// End with 0 if all is well, 1 with warnings, 2 if the server is not ready, 3 if no server answers
        #[arg(long, conflicts_with = "watch")]
        exit_code: bool,
    },
    /// Check that each record of the log is in the database, or is accounted for
    Audit(AuditCommand),
    /// List or renew certificates, or make a certificate for development
    #[command(subcommand)]
    Cert(CertCommand),
    /// Make a line for a password file or a token file
    #[command(subcommand)]
    Auth(AuthCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Read a password from stdin, and print its line for a password file
    Password {
        /// The name of the user
        name: String,
    },
    /// Make a token. Its line for a token file goes to stdout, and the token to stderr
    Token {
        /// The name of the caller
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Count across machines: this machine's log or databases, and the segments in a store. The store is a
    /// folder, s3://BUCKET/PREFIX, gs://, az://, or the name of a [ship.NAME]
    #[arg(long = "store", value_name = "STORE|DIR|NAME")]
    pub(crate) place: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Print one JSON object per line, for each sink, log and stream
    #[arg(long)]
    pub(crate) json: bool,
}

/// The request of `check --sample`.
#[derive(Debug, Args)]
pub(crate) struct SampleArguments {
    /// The path and query of the request [default: the only route with collect]
    #[arg(long, value_name = "PATH", requires = "sample")]
    pub(crate) route: Option<String>,
    /// The method of the request
    #[arg(long, value_name = "METHOD", default_value = "POST", requires = "sample")]
    pub(crate) method: String,
    /// The Content-Type of the request. Empty: none
    #[arg(long = "type", value_name = "TYPE", default_value = "application/json", requires = "sample")]
    pub(crate) content_type: String,
    /// A header field of the request. Can be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "sample")]
    pub(crate) header: Vec<String>,
    /// Print the reply and the records as one line of JSON
    #[arg(long, requires = "sample")]
    pub(crate) json: bool,
}

/// The options of `serve`. They apply to each configuration that the server loads.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Listen on this address instead of `listen` in the configuration. Can be repeated
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Also listen with TLS, with a certificate for localhost from the development authority
    #[arg(
        long,
        value_name = "IP:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:8443"
    )]
    pub(crate) https: Option<SocketAddr>,
    /// Record requests, but load no rows. A later start without this option loads them
    #[arg(long)]
    pub(crate) no_load: bool,
    /// Reload when files change, and show errors with source code in replies. Only on loopback addresses
    #[arg(long)]
    pub(crate) dev: bool,
    /// Allow --dev on other addresses. Every client that reaches them can then see source code
    #[arg(long, requires = "dev")]
    pub(crate) dev_anywhere: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Load only this sink
    #[arg(long, value_name = "NAME")]
    pub(crate) sink: Option<String>,
    /// End when all sealed segments and all synced records of a running server are loaded
    #[arg(long)]
    pub(crate) once: bool,
    /// Load the segments that other machines shipped to this folder, or to s3://BUCKET/PREFIX, gs:// or az://
    #[arg(long, value_name = "STORE|DIR", conflicts_with_all = ["retry_rejects", "skip"])]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// The folder of fetched segments. It is emptied at the start [default: `fetched`, beside the log folder]
    #[arg(long, value_name = "DIR", requires = "from")]
    pub(crate) spool: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) volume: LoadVolume,
    /// Try the rejects in the database again, then end. Rejects that fit their table now become rows
    #[arg(long, conflicts_with = "once")]
    pub(crate) retry_rejects: bool,
    /// Give up the next records of a log, then end. They become a gap, so that later records can be loaded
    #[arg(long, num_args = 2, value_names = ["LOG", "FIRST-LAST"], conflicts_with_all = ["once", "retry_rejects"])]
    pub(crate) skip: Option<Vec<String>>,
}

/// The service of a store. Credentials come from the environment or from the machine.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreArguments {
    /// The address of the service of the store, instead of the address of the cloud
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// The region of an s3:// store
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// The checksum that an s3:// store verifies at each write
    #[arg(long, value_name = "NAME", value_parser = put_checksum(), default_value = "sha256")]
    pub(crate) checksum: PutChecksum,
    /// A PEM file with the authorities that the store's certificate may come from
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

fn put_checksum() -> impl TypedValueParser<Value = PutChecksum> {
    PossibleValuesParser::new(PutChecksum::ALL.map(PutChecksum::name)).map(|name| {
        let known = PutChecksum::ALL.into_iter().find(|checksum| checksum.name() == name);
        known.unwrap_or_default()
    })
}

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

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ShipCommand {
    #[command(subcommand)]
    pub(crate) plan: Option<ShipPlan>,
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// The folder of the store, or a store: s3://BUCKET/PREFIX, gs://, az://
    #[arg(long, value_name = "STORE|DIR")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Send nothing, and print which segments the store lacks
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What a configuration means for its stores, and commands on volumes. Nothing is sent to a store.
#[derive(Debug, Subcommand)]
pub(crate) enum ShipPlan {
    #[command(flatten)]
    Volume(VolumeCommand),
    /// Print what the stores cost in a month, at the rate of the present log
    Cost {
        #[command(flatten)]
        config: ConfigPath,
    },
    /// Print the policy with the least rights that this machine needs in an s3:// store
    Policy {
        #[command(flatten)]
        config: ConfigPath,
        /// Print the policy of a machine that loads
        #[arg(long)]
        load: bool,
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

/// The identity of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordId {
    pub(crate) log: LogId,
    pub(crate) sequence: Sequence,
}

impl FromStr for RecordId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = "allowed is the id of a log, a colon, and the number of a record from 1 on";
        let (log, sequence) = text.split_once(':').ok_or(allowed)?;
        let log = log.parse().map_err(|_| allowed)?;
        let sequence = Sequence(sequence.parse().map_err(|_| allowed)?);
        if sequence.is_possible() { Ok(Self { log, sequence }) } else { Err(allowed) }
    }
}

/// A time, by itself or before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// Microseconds since 1970.
    At(i64),
    Ago(SignedDuration),
}

impl FromStr for Since {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(us) = parse_timestamp(text, None) {
            return Ok(Self::At(us));
        }
        let ago = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
        ago.map(|ago| Self::Ago(ago.abs())).map_err(
            |_| "allowed is a time with its zone (2026-01-31T12:00:00Z), or a duration (90s, 1h, 7d)",
        )
    }
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

/// A conflict between options that the parser of the command line does not find.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) &'static str);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_folder_here_is_the_default() {
        let Command::Serve(serve) = Cli::parse_from(["tollgate", "serve"]).command else { panic!() };
        assert_eq!(&*serve.config, Path::new("."));
    }

    #[test]
    fn a_record_is_named_by_its_log_and_its_number() {
        let log = LogId::from_bytes([0x1a; 16]);
        let read = |number: &str| format!("{log}:{number}").parse::<RecordId>();
        assert_eq!(read("7"), Ok(RecordId { log, sequence: Sequence(7) }));
        for wrong in ["0", "-1", "", "x", "1 ", "72057594037927936", "99999999999999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(log.to_string().parse::<RecordId>().is_err());
        assert!("7:7".parse::<RecordId>().is_err());
    }

    #[test]
    fn since_is_a_time_or_a_duration() {
        let check = |text: &str, expected| assert_eq!(text.parse(), Ok(expected), "{text}");
        let ago = |seconds| Since::Ago(SignedDuration::from_secs(seconds));
        check("2026-01-31T12:00:00Z", Since::At(1_769_860_800_000_000));
        check("2026-01-31T13:00:00.5+01:00", Since::At(1_769_860_800_500_000));
        check("90s", ago(90));
        check("1500ms", Since::Ago(SignedDuration::from_millis(1500)));
        check("1h", ago(3600));
        check("1h30m", ago(5400));
        check("7d", ago(7 * 86_400));
        check("1h ago", ago(3600));
        check("0s", ago(0));
        for wrong in ["", "1", "h", "2026-01-31", "2026-01-31T12:00:00", "12:00", "1 fortnight", "yesterday"]
        {
            assert!(wrong.parse::<Since>().is_err(), "{wrong}");
        }
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
