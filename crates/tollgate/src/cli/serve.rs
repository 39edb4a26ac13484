//! The arguments of `tollgate serve`.

use std::net::SocketAddr;

use clap::Args;

use super::place::ConfigPath;

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
