//! The arguments of `tollgate status`.

use clap::Args;

use super::place::ConfigPath;

#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Show the state again each second, until q or Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
    /// Show the state in a browser on this machine: prints an address, and serves it until Ctrl-C
    #[arg(long, conflicts_with_all = ["watch", "json", "exit_code"])]
    pub(crate) web: bool,
    /// The port of --web on 127.0.0.1 [default: a free port]
    #[arg(long, value_name = "PORT", requires = "web", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Print the whole state as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End with 0 if all is well, 1 with warnings, 2 if the server is not ready, 3 if no server answers
    #[arg(long, conflicts_with = "watch")]
    pub(crate) exit_code: bool,
}
