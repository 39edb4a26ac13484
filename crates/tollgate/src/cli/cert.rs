//! The arguments of `tollgate cert`.

use clap::Subcommand;

use super::place::{ConfigOption, ConfigPath};

/// A command on certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// List the certificates: names, issuer, end of validity, source, next order
    Ls {
        #[command(flatten)]
        config: ConfigPath,
    },
    /// Order new certificates now: by the running server, or by the next start
    Renew {
        /// The name of one certificate [default: all names]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        config: ConfigOption,
    },
    /// Make a development authority and a certificate for localhost, 127.0.0.1, ::1 and these names, in
    /// `data/tls` beside the configuration
    Local {
        /// Further names and addresses
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        config: ConfigOption,
    },
}
