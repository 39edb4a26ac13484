//! Step 3: from host, path and method to an endpoint.
//!
//! A table is a tree of path segments for each host that a route names, and one for all others. Among the routes that
//! match a path, the one wins whose first differing segment is more exact: literal, then `{name}`, then `*`. The path
//! decides first: when no route of the winning path takes the method, that is 405, never another path.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate_http::{Method, Methods};

/// Routes with something of type `T` behind each.
pub(crate) struct RouteTable<T> {
    hosts: HashMap<String, Node<T>, RandomState>,
    any_host: Node<T>,
}

/// What a request's path and method come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Routed<'t, 'p, T> {
    /// A route answers.
    Found(Match<'t, 'p, T>),
    /// Routes are there, but none for the method; these are taken.
    MethodNotAllowed(Methods),
    /// Nothing is there, but below it, after a slash.
    MissingSlash,
    /// Nothing is there.
    NotFound,
}

/// A route that answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match<'t, 'p, T> {
    pub(crate) endpoint: &'t T,
    /// All methods that are taken at this path.
    pub(crate) methods: Methods,
    /// The names of the captures, and what they captured.
    pub(crate) params: Vec<(&'t str, &'p str)>,
    /// What `*` stands for, with the slash before it; empty without `*`.
    pub(crate) path_info: &'p str,
}

struct Node<T> {
    literals: HashMap<String, Node<T>, RandomState>,
    capture: Option<Box<Node<T>>>,
    /// Routes that end in `*` here.
    rest: Vec<Entry<T>>,
    /// Routes that end here.
    here: Vec<Entry<T>>,
}

struct Entry<T> {
    methods: Methods,
    names: Vec<String>,
    endpoint: T,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { literals: HashMap::default(), capture: None, rest: Vec::new(), here: Vec::new() }
    }
}

impl<T> Default for RouteTable<T> {
    fn default() -> Self {
        Self { hosts: HashMap::default(), any_host: Node::default() }
    }
}

impl<T> RouteTable<T> {
    /// Adds a route. The pattern is one that the configuration allows: it begins with `/`, `*` stands last.
    pub(crate) fn insert(&mut self, host: Option<&str>, pattern: &str, methods: Methods, endpoint: T) {
        let mut node = match host {
            Some(host) => self.hosts.entry(host.to_ascii_lowercase()).or_default(),
            None => &mut self.any_host,
        };
        let mut names = Vec::new();
        for segment in segments(pattern) {
            if segment == "*" {
                node.rest.push(Entry { methods, names, endpoint });
                return;
            }
            node = match capture_name(segment) {
                Some(name) => {
                    names.push(name.to_owned());
                    node.capture.get_or_insert_default()
                }
                None => node.literals.entry(segment.to_owned()).or_default(),
            };
        }
        node.here.push(Entry { methods, names, endpoint });
    }

    /// Looks up a decoded, normalised path. The host, which may have a port, is asked for only if a route names one.
    pub(crate) fn find<'t, 'p, 'h>(
        &'t self,
        host: impl FnOnce() -> Option<&'h str>,
        path: &'p str,
        method: Method,
    ) -> Routed<'t, 'p, T> {
        let named = if self.hosts.is_empty() { None } else { host().and_then(|host| self.host(host)) };
        let routed = named.map_or(Routed::NotFound, |node| node.find(path, method));
        match routed {
            Routed::NotFound => self.any_host.find(path, method),
            // Another host's table may have the path itself.
            Routed::MissingSlash => match self.any_host.find(path, method) {
                Routed::NotFound => Routed::MissingSlash,
                routed => routed,
            },
            routed => routed,
        }
    }

    fn host(&self, host: &str) -> Option<&Node<T>> {
        self.hosts.get(&without_port(host).to_ascii_lowercase())
    }
}

impl<T> Node<T> {
    fn find<'t, 'p>(&'t self, path: &'p str, method: Method) -> Routed<'t, 'p, T> {
        let mut captured = Vec::new();
        match self.walk(path.strip_prefix('/'), path, &mut captured) {
            Some((entries, path_info)) => choose(entries, method, &captured, path_info),
            None if self.has_rest_below(path) => Routed::MissingSlash,
            None => Routed::NotFound,
        }
    }

    /// The routes of the most exact path; `left` is what follows the slash after this node's segment, if there is one.
    fn walk<'t, 'p>(
        &'t self,
        left: Option<&'p str>,
        path: &'p str,
        captured: &mut Vec<&'p str>,
    ) -> Option<(&'t [Entry<T>], &'p str)> {
        let Some(left) = left else {
            return (!self.here.is_empty()).then_some((self.here.as_slice(), ""));
        };
        let (segment, next) = match left.split_once('/') {
            Some((segment, next)) => (segment, Some(next)),
            None => (left, None),
        };
        if let Some(found) = self.literals.get(segment).and_then(|node| node.walk(next, path, captured)) {
            return Some(found);
        }
        if let Some(node) = self.capture.as_ref().filter(|_| !segment.is_empty()) {
            captured.push(segment);
            if let Some(found) = node.walk(next, path, captured) {
                return Some(found);
            }
            captured.pop();
        }
        let path_info = &path[path.len() - left.len() - 1..];
        (!self.rest.is_empty()).then_some((self.rest.as_slice(), path_info))
    }

    fn has_rest_below(&self, path: &str) -> bool {
        let slashed = format!("{path}/");
        let found = self.walk(slashed.strip_prefix('/'), &slashed, &mut Vec::new());
        found.is_some_and(|(_, path_info)| path_info == "/")
    }
}

fn choose<'t, 'p, T>(
    entries: &'t [Entry<T>],
    method: Method,
    captured: &[&'p str],
    path_info: &'p str,
) -> Routed<'t, 'p, T> {
    let methods = entries.iter().fold(Methods::EMPTY, |all, entry| all.union(entry.methods));
    match entries.iter().find(|entry| entry.methods.contains(method)) {
        Some(entry) => Routed::Found(Match {
            endpoint: &entry.endpoint,
            methods,
            params: entry.names.iter().map(String::as_str).zip(captured.iter().copied()).collect(),
            path_info,
        }),
        None => Routed::MethodNotAllowed(methods),
    }
}

fn segments(pattern: &str) -> std::str::Split<'_, char> {
    pattern.strip_prefix('/').unwrap_or(pattern).split('/')
}

fn capture_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// RFC 3986 section 3.2.2: colons of an IPv6 address stand in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(routes: &[&'static str]) -> RouteTable<&'static str> {
        let mut table = RouteTable::default();
        for &route in routes {
            let mut words = route.split(' ');
            let (host, path) = match words.next().unwrap().split_once('/') {
                Some(("", _)) => (None, route.split(' ').next().unwrap()),
                Some((host, _)) => (Some(host), &route.split(' ').next().unwrap()[host.len()..]),
                None => panic!("{route}"),
            };
            let named: Methods = words.filter_map(|word| Method::from_bytes(word.as_bytes())).collect();
            let methods = if named.is_empty() { Methods::from_iter([Method::Get]) } else { named };
            table.insert(host, path, methods, route);
        }
        table
    }

    /// `expect` is the route, its captures and its path info, or the refusal.
    fn check(routes: &[&'static str], host: Option<&str>, request: &str, expect: &str) {
        let (method, path) = request.split_once(' ').unwrap();
        let table = table(routes);
        let routed = table.find(|| host, path, Method::from_bytes(method.as_bytes()).unwrap());
        let found = match routed {
            Routed::Found(Match { endpoint, params, path_info, .. }) => {
                let params: Vec<_> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
                [(*endpoint).to_owned(), params.join(","), path_info.to_owned()].join("|")
            }
            Routed::MethodNotAllowed(methods) => format!("405 {methods}"),
            Routed::MissingSlash => "redirect".to_owned(),
            Routed::NotFound => "404".to_owned(),
        };
        assert_eq!(found, expect, "{request} in {routes:?}");
    }

    #[test]
    fn literal_comes_before_capture_before_star_segment_by_segment() {
        let routes = ["/", "/a", "/a/b", "/{x}", "/{x}/c", "/a/*", "/*", "/{x}/{y}/z", "/a/{y}/z"];
        check(&routes, None, "GET /", "/||");
        check(&routes, None, "GET /a", "/a||");
        check(&routes, None, "GET /q", "/{x}|x=q|");
        check(&routes, None, "GET /a/b", "/a/b||");
        // The literal comes first although the capture's route is longer.
        check(&routes, None, "GET /a/c", "/a/*||/c");
        check(&routes, None, "GET /q/c", "/{x}/c|x=q|");
        check(&routes, None, "GET /a/", "/a/*||/");
        check(&routes, None, "GET /a/q/z", "/a/{y}/z|y=q|");
        check(&routes, None, "GET /p/q/z", "/{x}/{y}/z|x=p,y=q|");
        check(&routes, None, "GET /p/q/r", "/*||/p/q/r");
        check(&routes, None, "GET /a/q/z/", "/a/*||/q/z/");
    }

    #[test]
    fn a_dead_end_goes_back_to_the_next_best() {
        check(&["/a/b", "/{x}/c"], None, "GET /a/c", "/{x}/c|x=a|");
        check(&["/a/b/c", "/*"], None, "GET /a/b/d", "/*||/a/b/d");
        check(&["/{x}/b", "/{x}/{y}"], None, "GET /1/2", "/{x}/{y}|x=1,y=2|");
    }

    #[test]
    fn a_slash_at_the_end_makes_another_path_and_captures_are_not_empty() {
        check(&["/a"], None, "GET /a/", "404");
        check(&["/a/"], None, "GET /a", "404");
        check(&["/a/"], None, "GET /a/", "/a/||");
        check(&["/u/{id}"], None, "GET /u/", "404");
        check(&["/u/{id}"], None, "GET /u//", "404");
        check(&["/a//b"], None, "GET /a//b", "/a//b||");
    }

    #[test]
    fn the_path_above_a_star_is_redirected_unless_something_is_there() {
        check(&["/docs/*"], None, "GET /docs", "redirect");
        check(&["/docs/*", "/docs"], None, "GET /docs", "/docs||");
        check(&["/docs/*", "/{x}"], None, "GET /docs", "/{x}|x=docs|");
        check(&["/docs/*"], None, "GET /doc", "404");
        check(&["/docs/a/*"], None, "GET /docs", "404");
    }

    #[test]
    fn the_path_decides_before_the_method() {
        let routes = ["/a GET HEAD", "/a POST", "/{x} PUT", "/* DELETE"];
        check(&routes, None, "POST /a", "/a POST||");
        check(&routes, None, "PUT /a", "405 GET, HEAD, POST");
        check(&routes, None, "GET /b", "405 PUT");
        check(&routes, None, "DELETE /b/c", "/* DELETE||/b/c");
    }

    #[test]
    fn a_named_host_comes_before_none() {
        let routes = ["example.org/a", "/a", "/b", "example.org/d/*", "[::1]/a"];
        check(&routes, Some("example.org"), "GET /a", "example.org/a||");
        check(&routes, Some("EXAMPLE.org:8080"), "GET /a", "example.org/a||");
        check(&routes, Some("[::1]:80"), "GET /a", "[::1]/a||");
        check(&routes, Some("other.org"), "GET /a", "/a||");
        check(&routes, Some("example.org"), "GET /b", "/b||");
        check(&routes, Some("example.org"), "GET /d", "redirect");
        check(&routes, None, "GET /a", "/a||");
    }
}
