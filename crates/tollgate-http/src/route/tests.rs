//! Tests of the precedence of routes: a table of cases, and a comparison with a model that applies the rules
//! without a tree.

use std::fmt::Write;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;
use crate::method::{Method, Methods};

fn table(routes: &[&'static str]) -> RouteTable<&'static str> {
    let mut table = RouteTable::default();
    for &route in routes {
        let Route { host, pattern, methods } = Route::parse(route);
        table.insert(host.as_deref(), &pattern, methods, route);
    }
    table
}

/// A route as `HOST/PATH METHOD ...`. The method defaults to GET. `HOST*` means the server itself.
#[derive(Debug, Clone)]
struct Route {
    host: Option<String>,
    pattern: String,
    methods: Methods,
}

impl Route {
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let place = words.next().unwrap();
        let path_start = place.find('/').or(place.find('*')).unwrap();
        let (host, pattern) = place.split_at(path_start);
        let named: Methods = words.filter_map(|word| Method::from_bytes(word.as_bytes())).collect();
        let methods = if named.is_empty() { Methods::from_iter([Method::Get]) } else { named };
        Self { host: (!host.is_empty()).then(|| host.to_owned()), pattern: pattern.to_owned(), methods }
    }
}

/// Checks a lookup. `expect` has the route, its captures and its path info, or the refusal.
fn check(routes: &[&'static str], host: Option<&str>, request: &str, expect: &str) {
    let (method, path) = request.split_once(' ').unwrap();
    let table = table(routes);
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let found = shown(&table.find(|| host, path.as_bytes(), method), path);
    assert_eq!(found, expect, "{request} in {routes:?}");
}

fn shown<T: std::fmt::Display>(routed: &Routed<'_, T>, path: &str) -> String {
    match routed {
        Routed::Found(found) => {
            let place = found.place(path.as_bytes());
            let names = place.names.iter().flat_map(|names| names.iter());
            let params = names.zip(place.spans.iter());
            let params: Vec<_> =
                params.map(|(name, &(start, end))| format!("{name}={}", &path[start..end])).collect();
            format!(
                "{}|{}|{}",
                found.endpoint(),
                params.join(","),
                &path[path.len() - place.path_info_bytes..]
            )
        }
        Routed::MethodNotAllowed(resource) => format!("405 {}", resource.methods()),
        Routed::MissingSlash => "redirect".to_owned(),
        Routed::NotFound => "404".to_owned(),
    }
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
    check(&["/a/b/c", "/a/{x}/d"], None, "GET /a/b/d", "/a/{x}/d|x=b|");
    check(&["/a/b/c", "/a/{x}/d", "/{y}/b/e"], None, "GET /a/b/e", "/{y}/b/e|y=a|");
    check(&["/a/b/c", "/a/{x}/d", "/{y}/b/e"], None, "GET /a/b/f", "404");
    // The lookup discards the captures of a branch that led to no route.
    check(&["/{x}/{y}/c", "/{z}/*"], None, "GET /1/2/3", "/{z}/*|z=1|/2/3");
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
    // The redirect has priority over a `*` of the folder above it, but not over a more exact `*`.
    check(&["/docs/*", "/*"], None, "GET /docs", "redirect");
    check(&["/docs/*", "/*"], None, "GET /doc", "/*||/doc");
    check(&["/{x}/b/*", "/a/*"], None, "GET /a/b", "/a/*||/b");
    check(&["/a/b/*", "/a/*", "/{x}/b"], None, "GET /a/b", "redirect");
    check(&["/a/b/*", "/{x}/b"], None, "GET /a/b", "/{x}/b|x=a|");
    check(&["/docs/* POST"], None, "GET /docs", "redirect");
    check(&["/*"], None, "GET /", "/*||/");
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
    check(&routes, Some("example.org."), "GET /a", "example.org/a||");
    check(&routes, Some("[0:0::0:1]:80"), "GET /a", "[::1]/a||");
    check(&["h/a", "/a POST"], Some("h"), "POST /a", "405 GET");
    check(&["h/a/*", "/a"], Some("h"), "GET /a", "/a||");
    check(&["h/a/*", "/*"], Some("h"), "GET /a", "redirect");
    check(&["h/a"], Some("i"), "GET /a", "404");
}

#[test]
fn the_server_itself_is_not_a_path() {
    check(&["/*"], None, "OPTIONS *", "404");
    check(&["/* OPTIONS", "* OPTIONS"], None, "OPTIONS *", "* OPTIONS||");
    check(&["* OPTIONS"], None, "OPTIONS /*", "404");
    check(&["h* OPTIONS", "* OPTIONS"], Some("h:80"), "OPTIONS *", "h* OPTIONS||");
    check(&["h* OPTIONS", "* OPTIONS"], Some("i"), "OPTIONS *", "* OPTIONS||");
}

/// Model of the precedence rules over a plain list of routes.
mod reference {
    use super::*;

    /// Exactness of each segment of a pattern. A literal is more exact than `{name}`, and `{name}` more exact
    /// than `*`.
    type Rank = Vec<u8>;

    struct Candidate<'r> {
        rank: Rank,
        is_star: bool,
        is_folder: bool,
        route: &'r Route,
    }

    /// Finds the route by the model. Returns its pattern with the captures, or "redirect", 404 or 405.
    pub(super) fn find(routes: &[Route], host: Option<&str>, path: &str, method: Method) -> String {
        let of = |host: Option<&str>| {
            let own: Vec<_> = routes.iter().filter(|route| route.host.as_deref() == host).collect();
            best(&own, path)
        };
        let (named, other) = (host.and_then(|host| of(Some(host))), of(None));
        let best = match named {
            Some(named) if named[0].is_folder => match other {
                Some(other) if !other[0].is_folder && !other[0].is_star => other,
                _ => named,
            },
            Some(named) => named,
            None => match other {
                Some(other) => other,
                None => return "404".to_owned(),
            },
        };
        if best[0].is_folder {
            return "redirect".to_owned();
        }
        match best.iter().find(|candidate| candidate.route.methods.contains(method)) {
            Some(candidate) => shown(candidate.route, path),
            None => {
                let methods = best.iter().fold(Methods::EMPTY, |all, one| all.union(one.route.methods));
                format!("405 {methods}")
            }
        }
    }

    /// Returns all routes of the pattern that wins.
    fn best<'r>(routes: &[&'r Route], path: &str) -> Option<Vec<Candidate<'r>>> {
        let all = || routes.iter().filter_map(|route| candidate(route, path));
        let star = all().filter(|one| one.is_star).map(|one| one.rank).min();
        let is_before_star = |one: &Candidate<'_>| star.as_ref().is_none_or(|star| one.rank < *star);
        let ends = all().filter(|one| !one.is_star && !one.is_folder && is_before_star(one));
        let folders = all().filter(|one| one.is_folder && is_before_star(one));
        let stars = all().filter(|one| one.is_star);
        [ends.collect::<Vec<_>>(), folders.collect(), stars.collect()].into_iter().find_map(|kind| {
            let first = kind.iter().map(|one| one.rank.clone()).min()?;
            Some(kind.into_iter().filter(|one| one.rank == first).collect())
        })
    }

    fn candidate<'r>(route: &'r Route, path: &str) -> Option<Candidate<'r>> {
        let pattern: Vec<_> = route.pattern[1..].split('/').collect();
        let path: Vec<_> = path[1..].split('/').collect();
        let mut rank = Rank::new();
        for (index, &segment) in pattern.iter().enumerate() {
            if segment == "*" {
                let is_folder = index == path.len();
                if !is_folder {
                    rank.push(2);
                }
                return Some(Candidate { rank, is_star: !is_folder, is_folder, route });
            }
            let found = *path.get(index)?;
            match segment.starts_with('{') {
                true if !found.is_empty() => rank.push(1),
                false if found == segment => rank.push(0),
                _ => return None,
            }
        }
        let is_whole = pattern.len() == path.len();
        is_whole.then_some(Candidate { rank, is_star: false, is_folder: false, route })
    }

    fn shown(route: &Route, path: &str) -> String {
        let (mut params, mut path_info) = (Vec::new(), String::new());
        let segments: Vec<_> = path[1..].split('/').collect();
        for (index, segment) in route.pattern[1..].split('/').enumerate() {
            if segment == "*" {
                segments[index..].iter().for_each(|rest| write!(path_info, "/{rest}").unwrap());
            } else if segment.starts_with('{') {
                params.push(format!("{}={}", segment.trim_matches(['{', '}']), segments[index]));
            }
        }
        format!("{}|{}|{path_info}", named(route), params.join(","))
    }

    pub(super) fn named(route: &Route) -> String {
        format!("{}{} {}", route.host.as_deref().unwrap_or_default(), route.pattern, route.methods)
    }
}

/// Uses few names, so that routes and paths often match.
fn segment() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("")]
}

fn any_route() -> impl Strategy<Value = Route> {
    let segments = prop::collection::vec(prop_oneof![3 => segment(), 2 => Just("{}")], 0..5);
    let methods = prop::sample::subsequence(Method::ALL.to_vec(), 1..3);
    let host = prop::option::weighted(0.3, Just("h".to_owned()));
    (host, segments, any::<bool>(), methods).prop_map(|(host, segments, has_star, methods)| {
        let mut pattern = String::new();
        for (index, segment) in segments.iter().enumerate() {
            match *segment {
                "{}" => write!(pattern, "/{{n{index}}}").unwrap(),
                literal => write!(pattern, "/{literal}").unwrap(),
            }
        }
        if has_star || pattern.is_empty() {
            pattern.push_str("/*");
        }
        Route { host, pattern, methods: methods.into_iter().collect() }
    })
}

proptest! {
    #![proptest_config(Config::with_cases(2000))]

    #[test]
    fn the_tree_finds_what_a_list_of_routes_finds(
        routes in prop::collection::vec(any_route(), 1..24),
        paths in prop::collection::vec(prop::collection::vec(segment(), 1..6), 16),
        method in prop::sample::select(&Method::ALL[..]),
        host in prop::option::of(prop_oneof![Just("h"), Just("i")]),
    ) {
        let mut table = RouteTable::default();
        for route in &routes {
            table.insert(route.host.as_deref(), &route.pattern, route.methods, reference::named(route));
        }
        for path in paths {
            let path = format!("/{}", path.join("/"));
            let found = shown(&table.find(|| host, path.as_bytes(), method), &path);
            prop_assert_eq!(found, reference::find(&routes, host, &path, method), "{:?} {}", host, path);
        }
    }
}
