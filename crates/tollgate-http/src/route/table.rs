//! All routes: one tree of paths for each host that a route names, and one tree for all other hosts.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::host::{canonical_host, without_port};
use super::matched_path::MatchedPath;
use super::tree::{Landing, Leaf, Node, RouteEntry};
use crate::method::{Method, Methods};

/// Routes, each with an endpoint of type `T`.
pub struct RouteTable<T> {
    hosts: HashMap<Box<str>, Site<T>, RandomState>,
    any_host: Site<T>,
}

/// The routes of one host.
struct Site<T> {
    paths: Node<T>,
    /// Routes of `*`, which means the server itself.
    asterisk: Leaf<T>,
}

/// Result of a lookup by host, path and method.
pub enum Routed<'t, T> {
    /// A route matches.
    Found(Match<'t, T>),
    /// Routes exist for the path, but not for the method.
    MethodNotAllowed(Resource<'t, T>),
    /// No route matches the path, but one matches the path with a slash after it.
    MissingSlash,
    /// No route matches.
    NotFound,
}

/// A route that matches.
pub struct Match<'t, T> {
    entry: &'t RouteEntry<T>,
    /// Length in bytes of the end of the path that `*` matched.
    path_info_bytes: usize,
}

/// The routes of one path, for all methods.
pub struct Resource<'t, T>(&'t Leaf<T>);

impl<T> Default for Site<T> {
    fn default() -> Self {
        Self { paths: Node::default(), asterisk: Leaf::default() }
    }
}

impl<T> Default for RouteTable<T> {
    fn default() -> Self {
        Self { hosts: HashMap::default(), any_host: Site::default() }
    }
}

impl<T> RouteTable<T> {
    /// Adds a route. The configuration has checked the pattern.
    ///
    /// A pattern begins with `/` and may have `*` as its last segment. The pattern `*` alone means the server
    /// itself.
    pub fn insert(&mut self, host: Option<&str>, pattern: &str, methods: Methods, endpoint: T) {
        let site = match host {
            Some(host) => self.hosts.entry(canonical_host(host).into()).or_default(),
            None => &mut self.any_host,
        };
        let (leaf, captures) = match pattern {
            "*" => (&mut site.asterisk, None),
            _ => site.paths.leaf(pattern),
        };
        leaf.insert(methods, captures, endpoint);
    }

    /// Looks up a decoded, normalised path, or `*`.
    ///
    /// `host` is called only if a route names a host. The result of `host` may have a port.
    #[inline]
    pub fn find<'t, 'h>(
        &'t self,
        host: impl FnOnce() -> Option<&'h str>,
        path: &[u8],
        method: Method,
    ) -> Routed<'t, T> {
        match self.land(host, path) {
            None => Routed::NotFound,
            Some(Landing::Folder) => Routed::MissingSlash,
            Some(Landing::Here(leaf)) => choose(leaf, 0, method),
            Some(Landing::Rest(leaf, bytes)) => choose(leaf, bytes, method),
        }
    }

    /// Lists all routes that match a path and a method.
    ///
    /// The first route is the result of [`find`](Self::find). Each later route would be the result if the
    /// routes before it did not exist.
    pub fn find_all<'t>(&'t self, host: Option<&str>, path: &[u8], method: Method) -> Vec<Match<'t, T>> {
        let named = host.and_then(|host| self.site(host));
        let mut landings = Vec::new();
        for site in named.into_iter().chain([&self.any_host]) {
            match path {
                b"*" => landings.push(Landing::Here(&site.asterisk)),
                _ => site.paths.find_all(path, &mut landings),
            }
        }
        let matches = landings.into_iter().filter_map(|landing| {
            let (leaf, path_info_bytes) = match landing {
                Landing::Here(leaf) => (leaf, 0),
                Landing::Rest(leaf, bytes) => (leaf, bytes),
                Landing::Folder => return None,
            };
            leaf.entry(method).map(|entry| Match { entry, path_info_bytes })
        });
        matches.collect()
    }

    #[inline]
    fn land<'h>(&self, host: impl FnOnce() -> Option<&'h str>, path: &[u8]) -> Option<Landing<'_, T>> {
        let named = if self.hosts.is_empty() { None } else { host().and_then(|host| self.site(host)) };
        match named.and_then(|site| site.find(path)) {
            None => self.any_host.find(path),
            // Before a redirect, the tree for all other hosts is searched for a route that ends at the path.
            Some(Landing::Folder) => {
                let other = self.any_host.find(path).filter(|landing| matches!(landing, Landing::Here(_)));
                other.or(Some(Landing::Folder))
            }
            found => found,
        }
    }

    fn site(&self, host: &str) -> Option<&Site<T>> {
        self.hosts.get(&*canonical_host(without_port(host)))
    }
}

impl<T> Site<T> {
    #[inline]
    fn find(&self, path: &[u8]) -> Option<Landing<'_, T>> {
        match path {
            b"*" if self.asterisk.entries.is_empty() => None,
            b"*" => Some(Landing::Here(&self.asterisk)),
            _ => self.paths.find(path),
        }
    }
}

#[inline]
fn choose<T>(leaf: &Leaf<T>, path_info_bytes: usize, method: Method) -> Routed<'_, T> {
    match leaf.entry(method) {
        Some(entry) => Routed::Found(Match { entry, path_info_bytes }),
        None => Routed::MethodNotAllowed(Resource(leaf)),
    }
}

impl<'t, T> Match<'t, T> {
    /// Returns the endpoint of the route.
    #[inline]
    pub fn endpoint(&self) -> &'t T {
        &self.entry.endpoint
    }

    /// Returns the parts of `path` that `{name}` and `*` matched, for a request whose head has a normalised
    /// path.
    pub fn place(&self, path: &[u8]) -> MatchedPath {
        let captures = self.entry.captures.as_ref();
        MatchedPath {
            decoded: None,
            names: captures.map(|captures| captures.names.clone()),
            spans: captures.map(|captures| captures.spans(path)).unwrap_or_default(),
            path_info_bytes: self.path_info_bytes,
        }
    }
}

impl<'t, T> Resource<'t, T> {
    /// Returns the methods that the path allows.
    pub fn methods(&self) -> Methods {
        self.0.methods
    }

    /// Lists the endpoints of these routes.
    pub fn endpoints(&self) -> impl Iterator<Item = &'t T> {
        self.0.entries.iter().map(|entry| &entry.endpoint)
    }
}
