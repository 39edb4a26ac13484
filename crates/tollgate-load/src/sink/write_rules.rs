//! How an open sink writes rows.

use super::after::AfterLoad;
use super::declared::DeclaredStreams;

/// The rules of an open sink.
pub(crate) struct WriteRules {
    /// The file of SQL that runs after each load.
    pub(super) after: Option<AfterLoad>,
    /// Maximum number of rows of one segment that the database may refuse. If it refuses more, the sink
    /// stops.
    pub(super) rejects_max: u64,
    /// Streams of the configuration.
    pub(super) declared: DeclaredStreams,
}
