//! The handlers of routes, and the records that they append to the log. This is step 4 of a transaction.

mod access;
mod chosen;
mod collect;
mod collected;
mod content_source;
mod content_step;
mod endpoint;
mod exchange;
mod fetcher;
mod fixed;
mod gated_reply;
mod items;
mod pass;
mod proxy;
mod records;
mod rehearsal;
mod rehearsed;
mod retried;
mod script;
mod script_file;
mod structure;
mod visit;

pub use collected::BODY_BYTES_MAX as COLLECT_BODY_BYTES_MAX;
pub(crate) use content_source::ContentSource;
pub(crate) use content_step::ContentStep;
pub(crate) use endpoint::{Endpoint, Scripts};
pub(crate) use exchange::{Exchange, Routes};
pub(crate) use fetcher::BackendFetcher;
pub(crate) use gated_reply::GatedReply;
pub(crate) use proxy::{BackendContent, RelayedPiece};
pub(crate) use rehearsed::{RecordOrigin, Rehearsed};
pub use retried::{ItemKey, ItemReader};
pub(crate) use visit::{Handled, Turn, Visit};
