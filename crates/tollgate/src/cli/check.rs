//! The arguments of `tollgate check`.

use std::path::PathBuf;

use clap::Args;

use super::place::ConfigPath;

#[derive(Debug, Args)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Print the whole configuration: every key, absolute paths, values of variables
    #[arg(long)]
    pub(crate) print: bool,
    /// Also check the types of scripts and tests. Files with --!strict are checked fully. In other files
    /// only errors that are certain are reported
    #[arg(long)]
    pub(crate) types: bool,
    /// Check the store of each [ship.NAME] instead: whether it answers, and creates each object only once
    #[arg(long)]
    pub(crate) store: bool,
    /// Also compare the streams with the tables of each [sink.NAME], and with the log of a running server
    #[arg(long)]
    pub(crate) sinks: bool,
    /// Show instead which rows and rejects a captured request body would make. `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["print", "types", "store", "sinks"])]
    pub(crate) sample: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sample_arguments: SampleArguments,
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
