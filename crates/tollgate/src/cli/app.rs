//! The arguments of the commands on an app: `tollgate new`, `tollgate test`.

use std::path::PathBuf;

use clap::Args;

use super::place::ConfigPath;

#[derive(Debug, Args)]
pub(crate) struct NewCommand {
    /// The folder of the app, new or empty
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) kind: KindOptions,
}

/// The kind of the app, as one option at most.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct KindOptions {
    /// A script that answers with JSON, and a page that uses it. This is the default
    #[arg(long)]
    api: bool,
    /// A route that takes events as JSON, without a script
    #[arg(long)]
    collect: bool,
    /// A script that receives signed webhooks, as GitHub sends them
    #[arg(long)]
    webhook: bool,
    /// A page with a form, and a script that takes the form
    #[arg(long)]
    site: bool,
}

/// The kinds of apps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppKind {
    Api,
    Collect,
    Webhook,
    Site,
}

impl KindOptions {
    pub(crate) const fn kind(&self) -> AppKind {
        match self {
            Self { collect: true, .. } => AppKind::Collect,
            Self { webhook: true, .. } => AppKind::Webhook,
            Self { site: true, .. } => AppKind::Site,
            _ => AppKind::Api,
        }
    }
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
