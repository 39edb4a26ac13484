//! `[[route]]`: the handler of a request, by its host, path and method.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_http::route::canonical_host;
use tollgate_server::{
    BackendOptions, BodyPace, COLLECT_BODY_BYTES_MAX, HandlerSpec, Method, Methods, Origins, RateKey,
    RateSpec, RouteAuth, RouteLimits, RouteSpec, ScriptAccess, ScriptFile, ServerOptions, Source, StreamSpec,
};

use super::access::{self, AccessKeys, Reachable};
use super::auth::{Auths, route_auth, show_route};
use super::auth_file::AuthPlace;
use super::client_certificate;
use super::cors;
use super::defaults::OFF;
use super::fault::{Location, stream_hint};
use super::handler::{self, HandlerKeys, scripts_beside};
use super::inside::{access_beyond, check_inside, keep_inside, own_path, served};
use super::key::{keys, write};
use super::methods::{methods, show_methods};
use super::quoted::{quoted, quoted_list};
use super::reach::ReachableBounds;
use super::route::{conflicts, is_host, path_problem};
use super::route_limits::{self, CONCURRENCY};
use super::section::{Section, Written};
use super::server::{BODY_BYTES, BODY_RATE};
use super::units::TIMEOUT_MS;
use super::validate;
use super::verify;
use super::when::WhenKeys;

/// The bounds of a route that are numbers.
pub(super) struct RouteBounds {
    pub(super) body_bytes_max: u64,
    pub(super) body_pace: BodyPace,
    pub(super) concurrency_max: Option<u32>,
    pub(super) refused: bool,
}

keys! {
    pub(super) KEYS of RouteBounds;
    /// Literal segments, `{name}` for any one segment, `*` at the end for all that follow.
    path [PATH] = other("needed", "begins with `/`, or is `*`");
    /// The host that the route answers for.
    host [HOST] = other("any", "a name or an address without a port");
    /// The methods that reach the handler.
    methods [METHODS] = other("the methods of the handler", METHODS_ALLOWED);
    /// A Luau script that answers the requests.
    script [SCRIPT] = other("none", "a file");
    /// A folder whose files the route serves.
    files [FILES] = other("none", "a folder, or a [table](files.md#the-table)");
    /// The backend that the requests are sent to.
    proxy [PROXY] = other("none", "the name of a backend, or a [table](backends.md#proxied-routes)");
    /// Whether the route takes JSON items, one record of the stream for each.
    collect [COLLECT] = other("none", "`true`, or a [table](collect.md#the-table)");
    /// A fixed reply to every request.
    reply [REPLY] = other("none", "a table");
    /// Rules that choose a backend or a fixed reply by the request. The first that holds decides.
    when [WHEN] = other("none", "a list of [tables](backends.md#choose-the-backend)");
    /// The handler of a request for which no rule of `when` holds.
    otherwise [OTHERWISE] = other("needed with `when`", "a table with `proxy` or `status`");
    /// Bytes of the content that the rules of `when` may read.
    look_ahead [LOOK_AHEAD] = size(64 << 10, 1 << 10..=1 << 20).by_hand();
    /// The namespaces of the prefixes in paths of XML of `when`.
    namespaces [NAMESPACES] = other("none", r#"`{ prefix = "URI" }`"#);
    /// The folder of the files that replies of its scripts may send.
    file_dir [FILE_DIR] = other("as in `[script]`", "a folder");
    /// The folder that its scripts save parts of forms in.
    upload_dir [UPLOAD_DIR] = other("as in `[script]`", "a folder");
    /// The databases that the scripts of the route may read.
    databases [DATABASES] = other("as in `[script]`", "names of `[database.NAME]`");
    /// Scripts that run before the handler.
    before [BEFORE] = other("`[]`", "a list of files");
    /// Scripts that run after the handler. Not allowed with `collect`.
    after [AFTER] = other("`[]`", "a list of files");
    /// The stream that records the requests of the route. `collect` needs it.
    stream [STREAM] = other("none", "the name of a `[stream.NAME]`");
    /// Bytes of a request's body, at most 16MiB with `collect`. More: 413.
    body_bytes_max [BODY_BYTES_MAX] = size(0, BODY_BYTES).inherits("as in `[server]`").by_hand()
        => body_bytes_max;
    /// Time from the head to the last byte of the body. Then: 408.
    body_timeout = duration(0, TIMEOUT_MS).inherits("as in `[server]`") => body_pace.timeout;
    /// Bytes per second at which a body must arrive on average. Slower: 408. 0B: no minimum.
    body_rate_min = size(0, BODY_RATE).inherits("as in `[server]`") => body_pace.rate_min;
    /// Time that a body may be late, compared with `body_rate_min`.
    body_rate_grace = duration(0, TIMEOUT_MS).inherits("as in `[server]`") => body_pace.rate_grace;
    /// Which pages of other origins may use the route.
    cors [CORS] = other("none", r#"`"*"`, or a [table](routing.md#pages-of-other-origins)"#);
    /// The certificates of clients that the route accepts. Others: 403.
    client_certificate [CLIENT_CERTIFICATE] = other("none", "`true`, or a [table](routing.md#certificates-of-clients)");
    /// The credentials that a request needs.
    auth [AUTH] = other("none", "the name of an `[auth.NAME]`, or a [table](routing.md#who-may-use-a-route)");
    /// Requests of the route in progress at once, over all workers. More: 503.
    concurrency_max = integer_or(OFF, CONCURRENCY) => concurrency_max;
    /// How many requests are allowed in a period. More: 429.
    rate_limit [RATE_LIMIT] = other("none", "a table, or a list of tables, checked in order");
    /// The signature that requests must have. Without it: 401.
    verify [VERIFY] = other("none", "a [table](routing.md#webhooks)");
    /// The schemas of RELAX NG that requests and replies must follow.
    validate [VALIDATE] = other("none", "a [table](xml-validation.md)");
    /// Whether the stream also records requests that the route refuses with 401 or 403, or by `validate`.
    refused [REFUSED] = switch(false) => refused;
}

const METHODS_ALLOWED: &str =
    "a list of `GET` `HEAD` `POST` `PUT` `DELETE` `PATCH` `OPTIONS`. GET brings HEAD";
const HANDLERS: HandlerKeys = HandlerKeys {
    script: &SCRIPT,
    files: &FILES,
    proxy: &PROXY,
    collect: &COLLECT,
    reply: &REPLY,
    when: WhenKeys { when: &WHEN, otherwise: &OTHERWISE, look_ahead: &LOOK_AHEAD, namespaces: &NAMESPACES },
};
const ACCESS: AccessKeys = AccessKeys { files: &FILE_DIR, uploads: &UPLOAD_DIR, databases: &DATABASES };

/// The values that apply where a route sets none.
pub(super) struct RouteDefaults<'a> {
    /// The folder that paths are relative to.
    pub(super) folder: &'a Path,
    /// The streams that a route may name.
    pub(super) streams: &'a [StreamSpec],
    /// The backends of the server, which a route may name.
    pub(super) backends: &'a [BackendOptions],
    pub(super) body_bytes_max: u64,
    pub(super) body_pace: BodyPace,
    pub(super) reach: ReachableBounds,
    /// The folders and databases that scripts may reach.
    pub(super) reachable: Reachable<'a>,
    /// The credentials that a route may name.
    pub(super) auths: Auths,
    /// Whether the routes belong to an app. Such a route has no host, and no path outside of the app's
    /// folder.
    pub(super) is_app: bool,
}

/// All routes of a file, in its order.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) specs: Vec<RouteSpec>,
    /// The place of each route in the file.
    pub(super) places: Vec<Location>,
}

impl Routes {
    /// Reads all routes that are valid by themselves.
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

    /// Adds a fault for each pair of routes that conflict.
    pub(super) fn check(&self, root: &Section<'_>) {
        for (earlier, later) in conflicts(&self.specs) {
            let (path, place) = (&self.specs[later].path, &self.places[later]);
            let earlier = self.places[earlier].beside(&place.file);
            let text = format!(
                "route {path:?} conflicts with the route at {earlier}: host and path are the same, and \
                 methods overlap"
            );
            root.add_faults(vec![place.fault(text)]);
        }
    }
}

impl Routes {
    /// Adds a fault for each route that needs a certificate of clients, if no client is asked for one.
    pub(super) fn check_certificates(&self, root: &Section<'_>, are_asked: bool) {
        if are_asked {
            return;
        }
        for (spec, place) in self.specs.iter().zip(&self.places) {
            if spec.client_certificate.is_some() {
                let text = format!(
                    "client_certificate of route {:?} needs client_ca in [tls], so that clients are asked for one",
                    spec.path
                );
                root.add_faults(vec![place.fault(text)]);
            }
        }
    }
}

fn route(mut section: Section<'_>, defaults: &RouteDefaults<'_>) -> Option<RouteSpec> {
    let path = section.needed_text(PATH.name);
    if let Some(path) = &path
        && let Some(problem) = path_problem(&path.value)
    {
        section.fault_at(&path.span, problem);
    }
    let host = match defaults.is_app {
        true => None,
        false => section.text(HOST.name).map(|host| checked_host(&section, &host)),
    };
    let methods = methods(&mut section, METHODS.name, "methods in [[route]]");
    let stream = stream(&mut section, defaults.streams);
    let mut handler = handler::handler(&mut section, &HANDLERS, defaults.folder, defaults.backends);
    if let (Some(HandlerSpec::Files(_)), Some(path)) = (&handler, &path)
        && !path.value.ends_with("/*")
    {
        let text = format!("path is {:?}, allowed with files is a path that ends in \"/*\"", path.value);
        section.fault_at(&path.span, text);
    }
    if let (Some(handler), Some(path)) = (&handler, &path)
        && handler.proxies().any(|proxy| proxy.strip_prefix)
        && !path.value.ends_with("/*")
    {
        let text =
            format!("path is {:?}, allowed with strip_prefix is a path that ends in \"/*\"", path.value);
        section.fault_at(&path.span, text);
    }
    if matches!(handler, Some(HandlerSpec::Collect(_))) && !section.has(STREAM.name) {
        section.fault("missing key \"stream\" in [[route]]: collect needs a stream for its items");
    }
    let most = match handler {
        Some(HandlerSpec::Collect(_)) => COLLECT_BODY_BYTES_MAX,
        _ => *BODY_BYTES.end(),
    };
    let mut bounds = RouteBounds {
        body_bytes_max: defaults.body_bytes_max.min(most),
        body_pace: defaults.body_pace,
        concurrency_max: None,
        refused: false,
    };
    section.read(KEYS, &mut bounds);
    if let Some(bytes) = section.number_within(&BODY_BYTES_MAX, 0..=most) {
        bounds.body_bytes_max = bytes;
    }
    if section.has(BODY_BYTES_MAX.name) {
        defaults.reach.check_body(&section, bounds.body_bytes_max);
    }
    let cors = cors::cors(&mut section, &CORS);
    if cors.as_ref().is_some_and(|cors| cors.origins == Origins::AnyWithCredentials) {
        check_any_with_credentials(&section, handler.as_ref());
    }
    let client_certificate = client_certificate::client_certificate(&mut section, &CLIENT_CERTIFICATE);
    let rates = route_limits::rates(&mut section, &RATE_LIMIT);
    let verify = verify::verify(&mut section, &VERIFY, defaults.folder);
    let validate = validate::validate(&mut section, &VALIDATE, defaults.folder, handler.as_ref());
    let auth = auth(&mut section, defaults, (path.as_ref(), host.as_deref(), methods));
    check_callers(&section, &rates, auth.as_ref());
    if bounds.refused {
        check_refused(&section);
    }
    let before = scripts_beside(&mut section, BEFORE.name, defaults.folder);
    let after = scripts_beside(&mut section, AFTER.name, defaults.folder);
    if matches!(handler, Some(HandlerSpec::Collect(_))) && !after.is_empty() {
        section.fault_of(
            AFTER.name,
            "after in [[route]] is not allowed with collect: its reply depends on its records",
        );
    }
    let is_scripted = matches!(handler, Some(HandlerSpec::Script { .. })) || !before.is_empty();
    let mut access = match is_scripted {
        true => access::access(&mut section, &ACCESS, &defaults.reachable),
        false => ScriptAccess::default(),
    };
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
        let secrets = verify.iter().flat_map(|verify| &verify.secret_files).map(PathBuf::as_path);
        check_inside(&section, own.chain(folders).chain(secrets), defaults.folder);
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
        body_bytes_max: bounds.body_bytes_max,
        body_pace: Some(bounds.body_pace),
        cors,
        client_certificate,
        limits: RouteLimits { concurrency_max: bounds.concurrency_max, rates },
        verify,
        validate,
        auth,
        refused: bounds.refused,
        app: None,
        access,
        before,
        after,
    })
}

/// Takes the credentials of a route.
fn auth(
    section: &mut Section<'_>,
    defaults: &RouteDefaults<'_>,
    (path, host, methods): (Option<&Written<String>>, Option<&str>, Option<Methods>),
) -> Option<RouteAuth> {
    let RouteDefaults { folder, backends, is_app, .. } = *defaults;
    let path = path.map_or("", |path| &path.value);
    let methods = methods.map(show_methods).unwrap_or_default();
    let name = format!("{path:?} {}{methods}", host.unwrap_or_default());
    route_auth(section, &AUTH, &defaults.auths, AuthPlace { folder, backends, is_app }, name.trim_end())
}

/// Checks that refusals can occur, and that they have a stream.
fn check_refused(section: &Section<'_>) {
    if !section.has(STREAM.name) {
        section.fault_of(REFUSED.name, "refused in [[route]] needs a stream for its records");
    }
    if ![&AUTH, &VERIFY, &VALIDATE, &CLIENT_CERTIFICATE].iter().any(|key| section.has(key.name)) {
        let text = "refused in [[route]] has no effect without auth, verify, validate or client_certificate: \
                    set one of them, or remove refused";
        section.fault_of(REFUSED.name, text);
    }
}

/// Checks rates that count by the name of the caller, which only a route with credentials knows.
fn check_callers(section: &Section<'_>, rates: &[RateSpec], auth: Option<&RouteAuth>) {
    if auth.is_none() && rates.iter().any(|rate| rate.by == RateKey::Named(Source::RequestAuthName)) {
        section.fault_of(RATE_LIMIT.name, "rate_limit by request.auth.name needs auth on the route");
    }
}

/// Checks the methods of a handler. Files and `collect` answer only some methods. Other methods need a script
/// in `before`.
fn check_methods(section: &Section<'_>, methods: Methods, handler: &HandlerSpec) {
    let (own, allowed) = match handler {
        HandlerSpec::Files(_) => (&[Method::Get, Method::Head][..], "files are GET and HEAD"),
        HandlerSpec::Collect(_) => (&[Method::Post][..], "collect is POST"),
        HandlerSpec::Script { .. }
        | HandlerSpec::Proxy(_)
        | HandlerSpec::Reply { .. }
        | HandlerSpec::When(_) => return,
    };
    if methods.iter().any(|method| !own.contains(&method)) {
        let text = format!(
            "methods in [[route]] are {methods}, allowed with {allowed}: other methods need a script in \
             before"
        );
        section.fault_of("methods", text);
    }
}

/// Checks a route that any page may use with credentials. A reply that depends on the credentials would be
/// told to the page.
fn check_any_with_credentials(section: &Section<'_>, handler: Option<&HandlerSpec>) {
    let is_blind = matches!(handler, None | Some(HandlerSpec::Collect(_) | HandlerSpec::Reply { .. }));
    if !is_blind || section.has(BEFORE.name) || section.has(AFTER.name) {
        section.fault_of(
            CORS.name,
            "cors has origins = \"any-with-credentials\", allowed are collect and reply without scripts: list the \
             origins",
        );
    }
}

/// Checks a route for the path `*`, which only the request `OPTIONS *` has.
fn check_asterisk(section: &Section<'_>, methods: Option<Methods>, handler: Option<&HandlerSpec>) {
    let options = Methods::from_iter([Method::Options]);
    if let Some(methods) = methods.filter(|methods| ![Methods::EMPTY, options].contains(methods)) {
        section.fault_of(
            "methods",
            format!(
                "methods of path \"*\" are {methods}, allowed is OPTIONS: the path stands for the whole \
                     server"
            ),
        );
    }
    let name = match handler {
        Some(HandlerSpec::Collect(_)) => "collect",
        Some(HandlerSpec::Proxy(_)) => "proxy",
        Some(HandlerSpec::When(_)) => "when",
        _ => return,
    };
    section
        .fault(format!("path \"*\" has {name}, allowed are script and reply: the path is only for OPTIONS"));
}

/// A route of an app stays below the app's path and in its folder.
fn check_app_route(section: &Section<'_>, path: Option<&Written<String>>) {
    if let Some(path) = path.filter(|path| path.value == RouteSpec::ASTERISK) {
        section.fault_at(
            &path.span,
            "path is \"*\", which stands for the whole server: allowed in an app is a path that begins with \
             \"/\"",
        );
    }
}

fn checked_host(section: &Section<'_>, host: &Written<String>) -> String {
    if !is_host(&host.value) {
        let text =
            format!("host in [[route]] is {:?}, allowed is a name or an address without a port", host.value);
        section.fault_at(&host.span, text);
    }
    canonical_host(&host.value).into_owned()
}

fn stream(section: &mut Section<'_>, streams: &[StreamSpec]) -> Option<usize> {
    let name = section.text(STREAM.name)?;
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
    let bounds = RouteBounds {
        body_bytes_max: route.body_bytes_max,
        body_pace: route.body_pace.unwrap_or(server.connection.body_pace),
        concurrency_max: route.limits.concurrency_max,
        refused: route.refused,
    };
    let scripts = |scripts: &[ScriptFile]| {
        let files = scripts.iter().map(|script| script.file.to_string_lossy());
        (!scripts.is_empty()).then(|| quoted_list(files))
    };
    let stream = route.stream.and_then(|stream| server.streams.get(stream));
    let [files, uploads, databases] = access::show(&route.access, &ACCESS);
    let mut own = vec![
        (PATH.name, Some(quoted(&route.path))),
        (HOST.name, route.host.as_deref().map(quoted)),
        (METHODS.name, route.methods.map(show_methods)),
        files,
        uploads,
        databases,
        (BEFORE.name, scripts(&route.before)),
        (AFTER.name, scripts(&route.after)),
        (STREAM.name, stream.map(|stream| quoted(&stream.name))),
        (CORS.name, route.cors.as_ref().map(cors::show)),
        (CLIENT_CERTIFICATE.name, route.client_certificate.as_ref().map(client_certificate::show)),
        (AUTH.name, route.auth.as_ref().map(show_route)),
        (RATE_LIMIT.name, Some(route_limits::show(&route.limits.rates))),
        (VERIFY.name, route.verify.as_deref().map(verify::show)),
        (VALIDATE.name, route.validate.as_deref().map(validate::show)),
    ];
    own.extend(handler::show(&route.handler, &HANDLERS, &server.backends));
    write(KEYS, &bounds, &own, f)
}
