//! How an open sink writes rows.

use super::after::AfterLoad;
use super::declared::DeclaredStreams;

/// The rules of an open sink.
pub(crate) struct WriteRules {
    /// The file of SQL that runs after each load.
    pub(super) after: Option<AfterLoad>,
    /// The sink stops if the database refuses more rows of one segment than this.
    pub(super) rejects_max: u64,
    /// Streams of the configuration.
    pub(super) declared: DeclaredStreams,
}
