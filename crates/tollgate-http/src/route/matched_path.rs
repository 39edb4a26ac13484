//! The path of a request, with the parts that the pattern of its route matched.
//!
//! The path is copied only if it had to be decoded or normalised.

use std::rc::Rc;

use crate::request::RequestHead;

/// The path of a request, and the parts of it that matched `{name}` and `*`.
#[derive(Debug, Clone, Default)]
pub struct MatchedPath {
    /// The path, decoded and normalised. `None` if the request already had it in this form.
    pub decoded: Option<Box<str>>,
    /// The names of the captures, if there are any.
    pub names: Option<Rc<[Box<str>]>>,
    /// The start and the end of each capture in the path.
    pub spans: Vec<(usize, usize)>,
    /// Length in bytes of the end of the path that `*` matched, with the slash before that end.
    pub path_info_bytes: usize,
}

impl MatchedPath {
    /// Returns the path, decoded and normalised. `head` is the head of the request that was matched.
    #[inline]
    pub fn path<'a>(&'a self, head: &'a RequestHead) -> &'a str {
        self.decoded.as_deref().unwrap_or_else(|| head.path())
    }

    /// Returns the end of the path that `*` matched, with the slash before that end. The result is empty if
    /// the pattern has no `*`.
    pub fn path_info<'a>(&'a self, head: &'a RequestHead) -> &'a str {
        let path = self.path(head);
        path.get(path.len().saturating_sub(self.path_info_bytes)..).unwrap_or_default()
    }

    /// Returns the name and the value of each `{name}`, in the order of the path.
    pub fn params<'a>(&'a self, head: &'a RequestHead) -> impl Iterator<Item = (&'a str, &'a str)> {
        let path = self.path(head);
        let values = self.spans.iter().map(|&(start, end)| path.get(start..end).unwrap_or_default());
        self.names.iter().flat_map(|names| names.iter()).map(|name| &**name).zip(values)
    }
}
