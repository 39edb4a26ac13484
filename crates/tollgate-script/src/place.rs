//! Answers for where a request led: its path, and what the pattern of its route left open. Nothing is copied but a path
//! that had to be decoded.

use std::rc::Rc;

use tollgate_http::RequestHead;

/// The path of a request beside its head, and what of it `{name}` and `*` stand for.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The path, decoded and normalised; none where it came like that.
    pub decoded: Option<Box<str>>,
    /// The names of the captures, if there are any.
    pub names: Option<Rc<[Box<str>]>>,
    /// Where each of them begins and ends in the path.
    pub spans: Vec<(usize, usize)>,
    /// The bytes at the end of the path that `*` stands for, with the slash before them.
    pub path_info_bytes: usize,
}

impl Place {
    /// The path, decoded and normalised.
    pub(crate) fn path<'a>(&'a self, head: &'a RequestHead) -> &'a str {
        self.decoded.as_deref().unwrap_or_else(|| head.path())
    }

    pub(crate) fn path_info<'a>(&'a self, head: &'a RequestHead) -> &'a str {
        let path = self.path(head);
        path.get(path.len().saturating_sub(self.path_info_bytes)..).unwrap_or_default()
    }

    pub(crate) fn params<'a>(&'a self, head: &'a RequestHead) -> impl Iterator<Item = (&'a str, &'a str)> {
        let path = self.path(head);
        let values = self.spans.iter().map(|&(start, end)| path.get(start..end).unwrap_or_default());
        self.names.iter().flat_map(|names| names.iter()).map(|name| &**name).zip(values)
    }
}
