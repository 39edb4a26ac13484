//! The arguments of `tollgate load`.

use std::path::PathBuf;

use clap::Args;

use super::place::ConfigPath;
use super::store::StoreArguments;
use super::volumes::LoadVolume;

#[derive(Debug, Args)]
pub(crate) struct LoadCommand {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// Load only this sink
    #[arg(long, value_name = "NAME")]
    pub(crate) sink: Option<String>,
    /// End when all sealed segments and all synced records of a running server are loaded
    #[arg(long)]
    pub(crate) once: bool,
    /// Load the segments that other machines shipped to this folder, or to s3://BUCKET/PREFIX, gs:// or
    /// az://. Or load the topics that a Kafka sink wrote: kafka://HOST:PORT
    #[arg(long, value_name = "STORE|DIR|KAFKA", conflicts_with_all = ["retry_rejects", "skip"])]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// The folder of fetched segments, and of the sockets for `tollgate status`. It is emptied at the start
    /// [default: `fetched`, beside the log folder]
    #[arg(long, value_name = "DIR", requires = "from")]
    pub(crate) spool: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) volume: LoadVolume,
    /// Try the rejects in the database again, then end. Rejects that fit their table now become rows
    #[arg(long, conflicts_with = "once")]
    pub(crate) retry_rejects: bool,
    /// Give up the next records of a log, then end. They become a gap, so that later records can be loaded
    #[arg(long, num_args = 2, value_names = ["LOG", "FIRST-LAST"], conflicts_with_all = ["once", "retry_rejects"])]
    pub(crate) skip: Option<Vec<String>>,
}
