//! Requests of scripts to backends, as values. The server brings the [`Fetcher`] that sends them.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_http::Method;

/// Whoever asks backends for scripts.
pub trait Fetcher {
    /// The names of the backends.
    fn names(&self) -> Vec<String>;

    /// Begins a request to one of them; nothing is sent before it is polled, and dropping it cancels it.
    fn fetch(&self, backend: &str, request: FetchRequest) -> Fetching;
}

/// A request that runs.
pub type Fetching = Pin<Box<dyn Future<Output = Result<Fetched, FetchError>>>>;

/// What a script asks.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The method.
    pub method: Method,
    /// Path and query, beginning with a slash; what no URI has is to be escaped.
    pub target: String,
    /// Fields, each a sound name and value, none of the connection.
    pub fields: Vec<(String, Bytes)>,
    /// The content, if it has one.
    pub content: Option<Bytes>,
    /// How long all of it may take, beside the bounds of the backend.
    pub timeout: Option<Duration>,
}

/// A whole reply.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The status.
    pub status: u16,
    /// The fields by name in lower case, in their order.
    pub fields: Vec<(String, Bytes)>,
    /// The content, without a transfer coding.
    pub content: Bytes,
}

/// Why there is no reply.
#[derive(Debug, Clone)]
pub struct FetchError {
    /// One word, for scripts to compare with.
    pub name: &'static str,
    /// What happened.
    pub text: String,
}

/// Where a VM finds who asks for it.
pub(crate) type FetcherCell = RefCell<Option<Rc<dyn Fetcher>>>;
