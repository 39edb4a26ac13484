//! The arguments of `tollgate ship`.

use clap::{Args, Subcommand};

use super::place::ConfigPath;
use super::store::StoreArguments;
use super::volumes::VolumeCommand;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ShipCommand {
    #[command(subcommand)]
    pub(crate) plan: Option<ShipPlan>,
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// The folder of the store, or a store: s3://BUCKET/PREFIX, gs://, az://
    #[arg(long, value_name = "STORE|DIR")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Send nothing, and print which segments the store lacks
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What a configuration means for its stores, and commands on volumes. Nothing is sent to a store.
#[derive(Debug, Subcommand)]
pub(crate) enum ShipPlan {
    #[command(flatten)]
    Volume(VolumeCommand),
    /// Print what the stores cost in a month, at the rate of the present log
    Cost {
        #[command(flatten)]
        config: ConfigPath,
    },
    /// Print the policy with the least rights that this machine needs in an s3:// store
    Policy {
        #[command(flatten)]
        config: ConfigPath,
        /// Print the policy of a machine that loads
        #[arg(long)]
        load: bool,
    },
}
