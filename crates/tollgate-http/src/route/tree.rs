//! The paths of one host as a tree of segments.
//!
//! A lookup follows one branch. There are two branches only if a literal and a `{name}` both match a segment.
//! The second branch is tried if the first leads to no route. A lookup therefore costs one hash for each
//! segment of the path. The lookup visits only nodes that match the beginning of the path, so the number of
//! other routes does not matter.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;

use crate::method::{Method, Methods};

/// The routes below one beginning of a path.
pub(super) struct Node<T> {
    literals: HashMap<Box<[u8]>, Node<T>, RandomState>,
    capture: Option<Box<Node<T>>>,
    /// Routes that end in `*` at this node.
    rest: Leaf<T>,
    /// Routes that end at this node.
    here: Leaf<T>,
}

/// The routes of one pattern.
pub(super) struct Leaf<T> {
    pub(super) entries: Vec<RouteEntry<T>>,
    pub(super) methods: Methods,
}

pub(super) struct RouteEntry<T> {
    pub(super) methods: Methods,
    pub(super) captures: Option<Captures>,
    pub(super) endpoint: T,
}

/// Names that a pattern gives to segments of its paths.
pub(super) struct Captures {
    pub(super) names: Rc<[Box<str>]>,
    /// Index of the path segment for each name, counted from 0.
    segments: Box<[usize]>,
}

/// Result of a lookup in a tree.
pub(super) enum Landing<'t, T> {
    /// Routes end at this path.
    Here(&'t Leaf<T>),
    /// The path is the folder of a `*`, without the final slash.
    Folder,
    /// A `*` matches the given number of bytes at the end of the path.
    Rest(&'t Leaf<T>, usize),
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { literals: HashMap::default(), capture: None, rest: Leaf::default(), here: Leaf::default() }
    }
}

impl<T> Default for Leaf<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), methods: Methods::EMPTY }
    }
}

impl<T> Node<T> {
    /// Creates the nodes for a pattern, and returns its leaf and its captures.
    pub(super) fn leaf(&mut self, pattern: &str) -> (&mut Leaf<T>, Option<Captures>) {
        let mut node = self;
        let (mut names, mut captured) = (Vec::new(), Vec::new());
        for (index, segment) in pattern.strip_prefix('/').unwrap_or(pattern).split('/').enumerate() {
            if segment == "*" {
                return (&mut node.rest, Captures::new(names, captured));
            }
            node = match capture_name(segment) {
                Some(name) => {
                    names.push(name.into());
                    captured.push(index);
                    node.capture.get_or_insert_default()
                }
                None => node.literals.entry(segment.as_bytes().into()).or_default(),
            };
        }
        (&mut node.here, Captures::new(names, captured))
    }

    /// Finds the routes of the most exact pattern that matches `path`.
    ///
    /// A route that ends at the path has priority over the redirect to a folder. The redirect has priority
    /// over a less exact `*`.
    #[inline]
    pub(super) fn find(&self, path: &[u8]) -> Option<Landing<'_, T>> {
        let mut is_folder = false;
        let found = self.walk(path.strip_prefix(b"/"), &mut is_folder);
        found.or(is_folder.then_some(Landing::Folder))
    }

    /// Finds the routes of every pattern that matches `path`, the most exact first.
    pub(super) fn find_all<'t>(&'t self, path: &[u8], found: &mut Vec<Landing<'t, T>>) {
        self.walk_all(path.strip_prefix(b"/"), found);
    }

    fn walk_all<'t>(&'t self, left: Option<&[u8]>, found: &mut Vec<Landing<'t, T>>) {
        let Some(left) = left else {
            found.push(Landing::Here(&self.here));
            return;
        };
        let (segment, next) = split(left);
        if let Some(node) = self.literals.get(segment) {
            node.walk_all(next, found);
        }
        if let Some(node) = self.capture.as_ref().filter(|_| !segment.is_empty()) {
            node.walk_all(next, found);
        }
        found.push(Landing::Rest(&self.rest, left.len() + 1));
    }

    /// Searches below this node. `left` is the part of the path after the slash that follows the segment of
    /// this node. `None` if no slash follows.
    fn walk(&self, left: Option<&[u8]>, is_folder: &mut bool) -> Option<Landing<'_, T>> {
        let Some(left) = left else {
            if self.here.entries.is_empty() {
                *is_folder |= !self.rest.entries.is_empty();
                return None;
            }
            return Some(Landing::Here(&self.here));
        };
        let (segment, next) = split(left);
        if let Some(node) = self.literals.get(segment)
            && let Some(found) = node.walk(next, is_folder)
        {
            return Some(found);
        }
        if !segment.is_empty()
            && let Some(node) = &self.capture
            && let Some(found) = node.walk(next, is_folder)
        {
            return Some(found);
        }
        match self.rest.entries.is_empty() {
            true => None,
            false if *is_folder => Some(Landing::Folder),
            false => Some(Landing::Rest(&self.rest, left.len() + 1)),
        }
    }
}

impl<T> Leaf<T> {
    pub(super) fn insert(&mut self, methods: Methods, captures: Option<Captures>, endpoint: T) {
        self.methods = self.methods.union(methods);
        self.entries.push(RouteEntry { methods, captures, endpoint });
    }

    pub(super) fn entry(&self, method: Method) -> Option<&RouteEntry<T>> {
        self.entries.iter().find(|entry| entry.methods.contains(method))
    }
}

impl Captures {
    fn new(names: Vec<Box<str>>, segments: Vec<usize>) -> Option<Self> {
        (!names.is_empty()).then(|| Self { names: names.into(), segments: segments.into() })
    }

    /// Returns the start and the end of each capture in `path`, which the pattern matches.
    pub(super) fn spans(&self, path: &[u8]) -> Vec<(usize, usize)> {
        let Some(&last) = self.segments.last() else { return Vec::new() };
        let mut spans = Vec::with_capacity(self.segments.len());
        let mut wanted = self.segments.iter().peekable();
        let mut start = 1;
        for (index, segment) in segments(path).enumerate().take(last + 1) {
            let end = start + segment.len();
            if wanted.next_if(|&&segment| segment == index).is_some() {
                spans.push((start, end));
            }
            start = end + 1;
        }
        spans
    }
}

/// Splits the first segment off a path. Segments are short, so a plain loop is faster than a vectorized
/// search.
#[inline]
fn split(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(end) => (&path[..end], Some(&path[end + 1..])),
        None => (path, None),
    }
}

fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.strip_prefix(b"/").unwrap_or(path).split(|&byte| byte == b'/')
}

fn capture_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
