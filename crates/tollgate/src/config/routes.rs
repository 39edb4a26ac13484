//! `[[route]]`: which requests go where.

use std::fmt;
use std::path::Path;

use tollgate_server::{
    BackendOptions, BodyPace, COLLECT_BODY_BYTES_MAX, HandlerSpec, Method, Methods, RouteSpec, ScriptAccess,
    ServerOptions, StreamSpec, canonical_host,
};

use super::access::{self, Reachable};
use super::cors;
use super::fault::{Location, stream_hint};
use super::handler::{self, scripts_beside};
use super::inside::{access_beyond, check_inside, keep_inside, own_path, served};
use super::methods::methods;
use super::quoted::{quoted, quoted_path, show_or_off};
use super::reach::ReachableBounds;
use super::route::{conflicts, is_host, path_problem};
use super::route_limits;
use super::section::{Section, Written};
use super::server::{BODY_BYTES, body_pace};
use super::units::{show_duration, show_size};

/// What routes begin with where they say nothing else.
pub(super) struct RouteDefaults<'a> {
    /// What paths are relative to.
    pub(super) folder: &'a Path,
    /// The streams that they may name.
    pub(super) streams: &'a [StreamSpec],
    /// The backends that they may name: those of the server.
    pub(super) backends: &'a [BackendOptions],
    pub(super) body_bytes_max: u64,
    pub(super) body_pace: BodyPace,
    pub(super) reach: ReachableBounds,
    /// What their scripts may reach.
    pub(super) reachable: Reachable<'a>,
    /// Whether they are those of an app, which has no host and nothing outside of its folder.
    pub(super) is_app: bool,
}

/// All routes of a file, in its order.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) specs: Vec<RouteSpec>,
    /// Where each is written.
    pub(super) places: Vec<Location>,
}

impl Routes {
    /// Reads those that are sound by themselves.
    pub(super) fn read(root: &mut Section<'_>, defaults: &RouteDefaults<'_>) -> Self {
        let sections = root.tables("route", "[[route]]", "a list of sections [[route]]").unwrap_or_default();
        let mut routes = Self::default();
        for section in sections {
            let place = section.spot(section.span());
            if let Some(route) = route(section, defaults) {
                routes.specs.push(route);
                routes.places.push(place);
            }
        }
        routes
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.specs.extend(other.specs);
        self.places.extend(other.places);
    }

    /// Tells which are in each other's way.
    pub(super) fn check(&self, root: &Section<'_>) {
        for (earlier, later) in conflicts(&self.specs) {
            let (path, place) = (&self.specs[later].path, &self.places[later]);
            let earlier = self.places[earlier].beside(&place.file);
            let text = format!(
                "route {path:?} is that of {earlier} again: same host, same path, methods that overlap"
            );
            root.add_faults(vec![place.fault(text)]);
        }
    }
}

fn route(mut section: Section<'_>, defaults: &RouteDefaults<'_>) -> Option<RouteSpec> {
    let path = section.needed_text("path");
    if let Some(path) = &path
        && let Some(problem) = path_problem(&path.value)
    {
        section.fault_at(&path.span, problem);
    }
    let host = match defaults.is_app {
        true => None,
        false => section.text("host").map(|host| checked_host(&section, &host)),
    };
    let methods = methods(&mut section, "methods in [[route]]");
    let stream = stream(&mut section, defaults.streams);
    let mut handler = handler::handler(&mut section, defaults.folder, defaults.backends);
    if let (Some(HandlerSpec::Files(_)), Some(path)) = (&handler, &path)
        && !path.value.ends_with("/*")
    {
        let text = format!("path is {:?}, allowed with files is one that ends in \"/*\"", path.value);
        section.fault_at(&path.span, text);
    }
    if let (Some(HandlerSpec::Proxy(proxy)), Some(path)) = (&handler, &path)
        && proxy.strip_prefix
        && !path.value.ends_with("/*")
    {
        let text = format!("path is {:?}, allowed with strip_prefix is one that ends in \"/*\"", path.value);
        section.fault_at(&path.span, text);
    }
    if matches!(handler, Some(HandlerSpec::Collect)) && !section.has("stream") {
        section.fault("missing key \"stream\" in [[route]]: collect has nowhere to put the items");
    }
    let most = match handler {
        Some(HandlerSpec::Collect) => COLLECT_BODY_BYTES_MAX,
        _ => *BODY_BYTES.end(),
    };
    let body_bytes_max = section.size("body_bytes_max", 0..=most, defaults.body_bytes_max.min(most));
    if section.has("body_bytes_max") {
        defaults.reach.check_body(&section, body_bytes_max);
    }
    let body_pace = Some(body_pace(&mut section, defaults.body_pace));
    let cors = cors::cors(&mut section);
    let limits = route_limits::route_limits(&mut section);
    let before = scripts_beside(&mut section, "before", defaults.folder);
    let after = scripts_beside(&mut section, "after", defaults.folder);
    if matches!(handler, Some(HandlerSpec::Collect)) && !after.is_empty() {
        section.fault_of("after", "after in [[route]] stands beside collect, allowed with script, files and reply: what collect replies comes of its records");
    }
    let is_scripted = matches!(handler, Some(HandlerSpec::Script { .. })) || !before.is_empty();
    let mut access =
        if is_scripted { access::access(&mut section, &defaults.reachable) } else { ScriptAccess::default() };
    if path.as_ref().is_some_and(|path| path.value == RouteSpec::ASTERISK) {
        check_asterisk(&section, methods, handler.as_ref());
    } else if let (Some(handler), Some(methods), []) = (&handler, methods, &*before) {
        check_methods(&section, methods, handler);
    }
    if defaults.is_app {
        check_app_route(&section, path.as_ref());
        let scripts = before.iter().chain(&after).map(|script| script.file.as_path());
        let own = handler.as_ref().and_then(own_path).into_iter().chain(scripts);
        let folders = access_beyond(&access, &defaults.reachable.access);
        check_inside(&section, own.chain(folders), defaults.folder);
        keep_inside(&mut access, &defaults.reachable.access, defaults.folder);
        if let Some(files) = handler.as_mut().and_then(served) {
            files.bounds.within = Some(defaults.folder.to_owned());
        }
    }
    section.finish();
    let (path, handler) = (path?.value, handler?);
    Some(RouteSpec {
        path,
        host,
        methods,
        handler,
        stream,
        body_bytes_max,
        body_pace,
        cors,
        limits,
        app: None,
        access,
        before,
        after,
    })
}

/// A file answers who reads it, and nobody else unless a script does before it comes to that.
fn check_methods(section: &Section<'_>, methods: Methods, handler: &HandlerSpec) {
    let (own, allowed) = match handler {
        HandlerSpec::Files(_) => (&[Method::Get, Method::Head][..], "files are GET and HEAD"),
        HandlerSpec::Collect => (&[Method::Post][..], "collect is POST"),
        HandlerSpec::Script { .. } | HandlerSpec::Proxy(_) | HandlerSpec::Reply { .. } => return,
    };
    if methods.iter().any(|method| !own.contains(&method)) {
        let text =
            format!("methods in [[route]] are {methods}, allowed with {allowed}, and others with before");
        section.fault_of("methods", text);
    }
}

/// The path `*` is that of `OPTIONS *`.
fn check_asterisk(section: &Section<'_>, methods: Option<Methods>, handler: Option<&HandlerSpec>) {
    let options = Methods::from_iter([Method::Options]);
    if let Some(methods) = methods.filter(|methods| ![Methods::EMPTY, options].contains(methods)) {
        section.fault_of(
            "methods",
            format!("methods of path \"*\" are {methods}, allowed is OPTIONS: it is the server itself"),
        );
    }
    let name = match handler {
        Some(HandlerSpec::Collect) => "collect",
        Some(HandlerSpec::Proxy(_)) => "proxy",
        _ => return,
    };
    section.fault(format!("path \"*\" has {name}, allowed are script and reply: it is for OPTIONS alone"));
}

/// An app has what is below its path, and in its folder.
fn check_app_route(section: &Section<'_>, path: Option<&Written<String>>) {
    if let Some(path) = path.filter(|path| path.value == RouteSpec::ASTERISK) {
        section.fault_at(
            &path.span,
            "path is \"*\", which is the server itself: allowed is what is below the app",
        );
    }
}

fn checked_host(section: &Section<'_>, host: &Written<String>) -> String {
    if !is_host(&host.value) {
        let text =
            format!("host in [[route]] is {:?}, allowed is a name or an address without port", host.value);
        section.fault_at(&host.span, text);
    }
    canonical_host(&host.value).into_owned()
}

fn stream(section: &mut Section<'_>, streams: &[StreamSpec]) -> Option<usize> {
    let name = section.text("stream")?;
    let found = streams.iter().position(|stream| stream.name == name.value);
    if found.is_none() {
        let hint = stream_hint(&name.value, streams);
        section.fault_at(&name.span, format!("unknown stream {:?}{hint}", name.value));
    }
    found
}

/// Writes the section.
pub(super) fn write_route(
    route: &RouteSpec,
    server: &ServerOptions,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "\n[[route]]")?;
    writeln!(f, "path = {}", quoted(&route.path))?;
    if let Some(host) = &route.host {
        writeln!(f, "host = {}", quoted(host))?;
    }
    if let Some(methods) = route.methods {
        let methods: Vec<_> = methods.iter().map(|method| format!("\"{method}\"")).collect();
        writeln!(f, "methods = [{}]", methods.join(", "))?;
    }
    handler::write(&route.handler, &server.backends, f)?;
    access::write(&route.access, f)?;
    for (key, scripts) in [("before", &route.before), ("after", &route.after)] {
        if !scripts.is_empty() {
            let files: Vec<_> = scripts.iter().map(|script| quoted_path(&script.file)).collect();
            writeln!(f, "{key} = [{}]", files.join(", "))?;
        }
    }
    if let Some(stream) = route.stream.and_then(|stream| server.streams.get(stream)) {
        writeln!(f, "stream = {}", quoted(&stream.name))?;
    }
    writeln!(f, "body_bytes_max = \"{}\"", show_size(route.body_bytes_max))?;
    let pace = route.body_pace.unwrap_or(server.connection.body_pace);
    writeln!(f, "body_timeout = \"{}\"", show_duration(pace.timeout))?;
    writeln!(f, "body_rate_min = \"{}\"", show_size(pace.rate_min))?;
    writeln!(f, "body_rate_grace = \"{}\"", show_duration(pace.rate_grace))?;
    if let Some(cors) = &route.cors {
        writeln!(f, "cors = {}", cors::show(cors))?;
    }
    writeln!(f, "concurrency_max = {}", show_or_off(route.limits.concurrency_max))?;
    writeln!(f, "rate_limit = {}", route_limits::show(&route.limits.rates))
}
