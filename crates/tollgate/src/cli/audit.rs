//! The arguments of `tollgate audit`.

use clap::Args;

use super::place::ConfigPath;
use super::store::StoreArguments;

#[derive(Debug, Args)]
pub(crate) struct AuditCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Count across machines: this machine's log or databases, and the segments in a store. The store is a
    /// folder, s3://BUCKET/PREFIX, gs://, az://, or the name of a [ship.NAME]
    #[arg(long = "store", value_name = "STORE|DIR|NAME")]
    pub(crate) place: Option<String>,
    /// Count the rows in topics: against the Kafka sinks that wrote them, and the databases that load them.
    /// Without brokers, those of the Kafka sinks are used
    #[arg(
        long,
        value_name = "HOST:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "place"
    )]
    pub(crate) kafka: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Print one JSON object per line, for each sink, log and stream
    #[arg(long)]
    pub(crate) json: bool,
}
