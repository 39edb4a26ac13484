//! The arguments of the commands on an app: `tollgate new`, `tollgate test`.

use std::path::PathBuf;

use clap::Args;

use super::place::ConfigPath;

#[derive(Debug, Args)]
pub(crate) struct NewCommand {
    /// The folder of the app, new or empty
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TestCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Run only tests with this text in their names
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Run the tests again after each change of a file, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
}
