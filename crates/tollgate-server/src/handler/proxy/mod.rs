//! Proxied routes: a request goes on to a backend, and what comes back to the client.
//!
//! Both are written anew from what was read ([`request`], [`reply`]), never passed on as bytes (rule 20). A
//! request with a short body has come whole before it goes on, so a slow client holds no place at a backend,
//! and what is idempotent can be sent again; a long body goes on while it comes, if others leave it one of
//! the places for such, else through the spool. A short reply is gathered first, so that a backend that
//! breaks off shows as 502; a longer one leaves as it comes ([`backend_content`]), and one side waits for the
//! other.

mod ask;
mod backend_content;
mod hops;
mod own_word;
mod reply;
mod request;
mod rounds;
mod target;

pub(crate) use ask::{Asked, Proxied};
pub(crate) use backend_content::{BackendContent, RelayedPiece};
pub(crate) use own_word::OwnWord;
pub(crate) use target::Proxy;
