//! The command line.

mod app;
mod audit;
mod auth;
mod cert;
mod check;
mod load;
mod log;
mod place;
mod record;
mod serve;
mod ship;
mod sql;
mod status;
mod store;
mod volumes;

use clap::{Parser, Subcommand};

pub(crate) use app::{NewCommand, TestCommand};
pub(crate) use audit::AuditCommand;
pub(crate) use auth::AuthCommand;
pub(crate) use cert::CertCommand;
pub(crate) use check::{CheckCommand, SampleArguments};
pub(crate) use load::LoadCommand;
pub(crate) use log::{LogCommand, ReadCommand, RecordFormat};
use place::ConfigPath;
pub(crate) use record::Since;
pub(crate) use serve::ServeCommand;
pub(crate) use ship::{ShipCommand, ShipPlan};
pub(crate) use sql::{Format, SqlCommand};
pub(crate) use status::StatusCommand;
pub(crate) use store::StoreArguments;
pub(crate) use volumes::{FolderArguments, TargetArguments, VolumeCommand};

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
    New(NewCommand),
    /// Serve requests until SIGINT or SIGTERM
    Serve(ServeCommand),
    /// Make a running server reload its configuration and scripts. After any fault nothing changes
    Reload {
        #[command(flatten)]
        config: ConfigPath,
    },
    /// Check the configuration and compile all scripts, without serving requests
    Check(CheckCommand),
    /// Run the tests of an app (tests/*.luau in its folder), without a server
    Test(TestCommand),
    /// Load records into the databases until SIGINT or SIGTERM, if the server does not load or does not run
    Load(LoadCommand),
    /// Copy all sealed segments of the log to a folder or a store, then end. A running server may go on
    Ship(ShipCommand),
    /// Show, follow, check or repair the record log. Only repair needs the server to be stopped
    #[command(subcommand)]
    Log(LogCommand),
    /// Run one SQL statement that reads, on the database of a sink
    Sql(SqlCommand),
    /// Show the state of a running server: what is wrong and what to do, rates, latency, log, sinks
    Status(StatusCommand),
    /// Check that each record of the log is in the database, or is accounted for
    Audit(AuditCommand),
    /// List or renew certificates, or make a certificate for development
    #[command(subcommand)]
    Cert(CertCommand),
    /// Make a line for a password file or a token file
    #[command(subcommand)]
    Auth(AuthCommand),
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
    fn a_wrong_use_is_code_two() {
        for wrong in
            [&["tollgate", "serv"][..], &["tollgate", "sql"], &["tollgate", "log", "cat", "--log", "x"]]
        {
            assert_eq!(Cli::try_parse_from(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
    }
}
