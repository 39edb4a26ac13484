//! Step 4: what answers on a route, and what it leaves in the log.

mod collect;
mod collected;
mod endpoint;
mod exchange;
mod fetcher;
mod fixed;
mod flow;
mod flowed;
mod gated_reply;
mod items;
mod pass;
mod proxy;
mod records;
mod rehearsal;
mod retried;
mod script;
mod visit;

pub use collected::BODY_BYTES_MAX as COLLECT_BODY_BYTES_MAX;
pub(crate) use endpoint::{Endpoint, Scripts};
pub(crate) use exchange::{Exchange, Routes};
pub(crate) use fetcher::BackendFetcher;
pub(crate) use flow::Flow;
pub(crate) use flowed::Flowed;
pub(crate) use gated_reply::GatedReply;
pub(crate) use proxy::{BackendFlow, Passed};
pub(crate) use rehearsal::Rehearsed;
pub use retried::{ItemKey, ItemReader};
pub(crate) use visit::{Handled, Turn, Visit};
