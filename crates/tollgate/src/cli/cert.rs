//! The arguments of `tollgate cert`.

use std::path::PathBuf;

use clap::Subcommand;

/// A command on certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// List the certificates: names, issuer, end of validity, source, next order
    Ls {
        /// A configuration file, or the folder of an app
        #[arg(value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
    },
    /// Order new certificates now: by the running server, or by the next start
    Renew {
        /// The name of one certificate [default: all names]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// A configuration file, or the folder of an app
        #[arg(long, value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
    },
    /// Make a development authority and a certificate for localhost, 127.0.0.1, ::1 and these names
    Local {
        /// Further names and addresses
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// A configuration file, or the folder of an app. The files are in `data/tls` beside it
        #[arg(long, value_name = "CONFIG|DIR", default_value = ".")]
        config: PathBuf,
    },
}
