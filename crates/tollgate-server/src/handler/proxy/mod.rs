//! Proxied routes: forwards a request to a backend, and its reply to the client.
//!
//! Requests and replies are written anew from their parsed form ([`request`], [`reply`]), and never forwarded
//! as bytes.
//!
//! A request with a short body is complete before it is forwarded. A slow client therefore occupies no
//! connection to a backend, and an idempotent request can be sent again. A long body is forwarded while it
//! arrives, if one of the few permits for this is free. If no permit is free, the body goes through the
//! spool.
//!
//! A short reply is read completely before it is sent, so that a failure of the backend during the reply
//! results in 502. A longer reply is sent while it arrives ([`backend_content`]), and the backend is read
//! only as fast as the client reads.

mod ask;
mod backend_content;
mod forwarded_prefix;
mod hops;
mod own_origins;
mod own_word;
mod public_paths;
mod reply;
mod request;
mod rounds;
mod target;

pub(crate) use ask::{Asked, Proxied};
pub(crate) use backend_content::{BackendContent, RelayedPiece};
pub(crate) use own_word::OwnWord;
pub(crate) use target::Proxy;
