//! A request for a file, as the caller passes it.

use std::fmt::Display;
use std::time::Instant;

use tollgate_http::RequestHead;
use tollgate_http::route::MatchedPath;

/// A request for a file.
#[derive(Clone, Copy)]
pub struct FileRequest<'a> {
    /// The head as sent.
    pub head: &'a RequestHead,
    /// The path as the route matched it. The part that `*` matched names the file in the folder.
    pub place: &'a MatchedPath,
    /// The request id, for log lines.
    pub id: &'a dyn Display,
    /// Time when the head was complete.
    pub begun: Instant,
    /// The same moment in microseconds since 1970, UTC, for dates in replies.
    pub time_us: i64,
}

impl<'a> FileRequest<'a> {
    /// Returns the path, decoded and normalised.
    pub(crate) fn path(&self) -> &'a str {
        self.place.path(self.head)
    }

    /// Returns the part of the path that `*` matched, with the slash before it.
    pub(crate) fn path_info(&self) -> &'a str {
        self.place.path_info(self.head)
    }
}
