//! The arguments of `tollgate upgrade`.

use std::path::PathBuf;

use clap::Args;

use super::place::ConfigPath;

/// The options of `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct UpgradeCommand {
    /// The new program [default: the path from which the running server was started]
    #[arg(value_name = "BINARY")]
    pub(crate) program: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigPath,
}
