//! The command line.

mod app;
mod audit;
mod auth;
mod cert;
mod check;
pub(crate) mod help;
mod load;
mod log;
mod place;
mod record;
mod serve;
mod ship;
mod sql;
mod status;
mod store;
mod upgrade;
mod volumes;

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use app::{AppKind, NewCommand, TestCommand};
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
pub(crate) use upgrade::UpgradeCommand;
pub(crate) use volumes::{FolderArguments, TargetArguments, VolumeCommand};

/// The version with its commit and features, which the build script passes on.
const VERSION: &str = env!("TOLLGATE_VERSION");

/// An HTTP server for services that write a lot. It answers in microseconds, writes each record to disk
/// before the reply, and loads the records into a database.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version = VERSION, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a small example app of one kind, with tests
    New(NewCommand),
    /// Serve requests until SIGINT or SIGTERM
    Serve(ServeCommand),
    /// Make a running server reload its configuration and scripts. After any fault nothing changes
    Reload {
        #[command(flatten)]
        config: ConfigPath,
    },
    /// Make a running server start a new program, which takes over. After any fault the old one serves on
    Upgrade(UpgradeCommand),
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
    /// Print the completions of a shell, for its start file
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual pages of all commands into a folder
    Man {
        /// The folder. It is made if it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Returns the definition of the command line, with examples and exit codes in each help.
pub(crate) fn command() -> clap::Command {
    help::with_ends(Cli::command())
}

/// Reads the arguments of the process. A wrong use ends the process with code 2, and a help with code 0.
pub(crate) fn read() -> Cli {
    let matches = command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The shells with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A conflict between options that the parser of the command line does not find.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) &'static str);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

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
