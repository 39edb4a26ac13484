//! The rules of routes that need no file: valid path patterns, and routes that conflict with each other.

use std::collections::HashMap;

use tollgate_server::RouteSpec;

/// Returns the fault in a path pattern, if there is one.
pub(super) fn path_problem(path: &str) -> Option<String> {
    if path == RouteSpec::ASTERISK {
        return None;
    }
    let Some(below) = path.strip_prefix('/') else {
        return Some(format!("path is {path:?}, allowed is a path that begins with \"/\""));
    };
    let segments: Vec<_> = below.split('/').collect();
    if let Some(index) = segments.iter().position(|segment| of_other_servers(segment).is_some()) {
        let meant = segments.iter().map(|segment| of_other_servers(segment).unwrap_or((*segment).to_owned()));
        let meant = meant.collect::<Vec<_>>().join("/");
        let segment = segments[index];
        return Some(format!(
            "segment {segment:?} of path {path:?} is no capture: write path = \"/{meant}\""
        ));
    }
    let mut names = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        if let Some(problem) = segment_problem(segment, is_last) {
            return Some(format!("segment {segment:?} of path {path:?} {problem}"));
        }
        if let Some(name) = capture_name(segment) {
            if names.contains(&name) {
                return Some(format!("path {path:?} has the segment {segment:?} twice: rename one of them"));
            }
            names.push(name);
        }
    }
    None
}

/// Returns the segment that another server writes as `:name`, `<name>`, `{*name}` or `{name...}`.
fn of_other_servers(segment: &str) -> Option<String> {
    let inside =
        |start: &str, end: &str| segment.strip_prefix(start)?.strip_suffix(end).filter(|name| is_name(name));
    if let Some(name) = inside(":", "").or_else(|| inside("<", ">")) {
        return Some(format!("{{{name}}}"));
    }
    inside("{*", "}").or_else(|| inside("{", "...}")).map(|_| "*".to_owned())
}

fn segment_problem(segment: &str, is_last: bool) -> Option<&'static str> {
    if capture_name(segment).is_some() || (segment == "*" && is_last) {
        return None;
    }
    if segment == "*" {
        return Some("is not the last: \"*\" must be the last segment");
    }
    if segment.contains(['{', '}', '*']) {
        return Some(
            "is not literal, {name}, or * at the end; a name is a letter or _, then letters, digits and _",
        );
    }
    if segment == "." || segment == ".." {
        return Some("matches no request: the server resolves dot segments before it looks up the route");
    }
    if segment.contains(['%', '?', '#', '\\']) || segment.contains(char::is_control) {
        return Some(
            "has a character that is not allowed: write the path decoded, without query and fragment",
        );
    }
    None
}

fn capture_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}').filter(|name| is_name(name))
}

/// Returns whether a text is a name: a letter or `_`, then letters, digits and `_`.
pub(super) fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Returns whether a text can be the host of a request, without its port (RFC 3986 section 3.2.2).
pub(super) fn is_host(text: &str) -> bool {
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Returns the pairs of routes that could both answer a request of the same shape, by index. The earlier
/// route is first.
pub(super) fn conflicts(routes: &[RouteSpec]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    // Routes are grouped by host and shape, so that ten thousand routes are not compared with each other.
    let mut known: HashMap<(Option<&str>, String), Vec<usize>> = HashMap::new();
    for (later, route) in routes.iter().enumerate() {
        let same = known.entry((route.host.as_deref(), shape(&route.path))).or_default();
        let earlier = same.iter().find(|&&earlier| is_overlap(&routes[earlier], route));
        pairs.extend(earlier.map(|&earlier| (earlier, later)));
        same.push(later);
    }
    pairs
}

fn is_overlap(a: &RouteSpec, b: &RouteSpec) -> bool {
    match (a.known_methods(), b.known_methods()) {
        (Some(a), Some(b)) => !a.intersection(b).is_empty(),
        // Without `methods`, only the script decides which methods it answers. The route is treated as if it
        // answered all.
        _ => true,
    }
}

/// Returns a path in which each captured segment is replaced by `{}`.
fn shape(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use tollgate_server::{HandlerSpec, Method, Methods};

    #[test]
    fn paths_are_literals_captures_and_a_star_at_the_end() {
        for path in ["*", "/", "/a", "/a/", "/a/{id}", "/{a}/{b_2}/*", "/*", "/a//b", "/a.b/~c", "/ü"] {
            assert_eq!(path_problem(path), None, "{path}");
        }
        let check = |path, expected: &str| {
            let problem = path_problem(path).unwrap();
            assert!(problem.contains(expected), "{path}: {problem}");
        };
        check("a", "path is \"a\", allowed is a path that begins with \"/\"");
        check("", "begins with");
        check("/*/a", "segment \"*\" of path \"/*/a\" is not the last");
        check("/a*", "is not literal");
        check("/{}", "is not literal");
        check("/{a b}", "is not literal");
        check("/x{a}", "is not literal");
        check("/{a}/{a}", "has the segment \"{a}\" twice");
        check("/a/../b", "matches no request");
        check("/a%20b", "write the path decoded");
        check("/a?b", "write the path decoded");
        check("/a\nb", "write the path decoded");
    }

    #[test]
    fn hosts_are_names_or_addresses_without_a_port() {
        for (host, expected) in [
            ("example.org", true),
            ("127.0.0.1", true),
            ("[::1]", true),
            ("", false),
            ("a:80", false),
            ("[x]", false),
            ("a/b", false),
        ] {
            assert_eq!(is_host(host), expected, "{host}");
        }
    }

    fn route(path: &str, host: Option<&str>, methods: &[Method]) -> RouteSpec {
        let handler = HandlerSpec::Script { file: PathBuf::new(), root: PathBuf::new() };
        RouteSpec {
            host: host.map(str::to_owned),
            methods: (!methods.is_empty()).then(|| methods.iter().copied().collect::<Methods>()),
            ..RouteSpec::new(path, handler)
        }
    }

    #[test]
    fn routes_of_one_shape_conflict_where_their_methods_meet() {
        use Method::{Get, Post, Put};
        let check = |a: RouteSpec, b: RouteSpec, expected: bool| {
            assert_eq!(!conflicts(&[a.clone(), b.clone()]).is_empty(), expected, "{a:?} {b:?}");
        };
        check(route("/a", None, &[]), route("/a", None, &[]), true);
        check(route("/a", None, &[]), route("/b", None, &[]), false);
        check(route("/a", None, &[]), route("/a/", None, &[]), false);
        check(route("/{x}", None, &[]), route("/{y}", None, &[]), true);
        check(route("/{x}", None, &[]), route("/*", None, &[]), false);
        check(route("/{x}", None, &[]), route("/x", None, &[]), false);
        check(route("/a", None, &[Get]), route("/a", None, &[Post]), false);
        check(route("/a", None, &[Get, Put]), route("/a", None, &[Post, Put]), true);
        check(route("/a", None, &[Get]), route("/a", None, &[]), true);
        check(route("/a", None, &[Get]), route("/a", None, &[Method::Head]), true);
        check(route("/a", Some("x"), &[]), route("/a", None, &[]), false);
        check(route("/a", Some("x"), &[]), route("/a", Some("x"), &[]), true);
    }

    #[test]
    fn handlers_without_a_script_have_methods_of_their_own() {
        let collect = RouteSpec { handler: HandlerSpec::Collect(Box::default()), ..route("/a", None, &[]) };
        let content_type = String::new();
        let reply = HandlerSpec::Reply { status: 200, content_type, body: Default::default() };
        let reply = RouteSpec { handler: reply, ..route("/a", None, &[]) };
        assert_eq!(conflicts(&[collect.clone(), reply.clone()]), []);
        assert_eq!(conflicts(&[collect.clone(), collect.clone()]), [(0, 1)]);
        assert_eq!(conflicts(&[reply, collect, route("/a", None, &[Method::Put])]), []);
    }

    #[test]
    fn ten_thousand_routes_are_not_compared_with_each_other() {
        let mut all: Vec<_> = (0..10_000).map(|index| route(&format!("/r{index}"), None, &[])).collect();
        all.push(route("/r9999", None, &[]));
        assert_eq!(conflicts(&all), [(9999, 10_000)]);
    }

    #[test]
    fn a_conflict_names_the_first_of_its_kind() {
        let all = [
            route("/a", None, &[]),
            route("/b", None, &[]),
            route("/{x}", None, &[]),
            route("/a", None, &[]),
        ];
        assert_eq!(conflicts(&all), [(0, 3)]);
    }
}
