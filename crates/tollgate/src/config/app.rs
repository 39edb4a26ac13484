//! `[[app]]`: folders with an `app.toml` that are mounted below a path. One folder may be mounted several
//! times.
//!
//! File paths in an `app.toml` are relative to its folder, and none may lead out of it. Paths of its routes
//! are relative to the mount. The routes and streams of an app are added to the routes and streams of the
//! server. A conflict is reported with both places.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_http::route::canonical_host;
use tollgate_log::LogOptions;
use tollgate_server::{
    AppSpec, AuthSpec, BackendOptions, BodyPace, Database, HostOptions, RouteSpec, ScriptAccess, SourceFile,
    StreamSpec,
};

use super::access::Reachable;
use super::auth::Auths;
use super::auth_file::AuthPlace;
use super::defaults::APP_FILE;
use super::denied::denial;
use super::env::Environment;
use super::fault::{Faults, Location};
use super::inside::{access_beyond, check_inside, keep_inside};
use super::key::{keys, write};
use super::quoted::{quoted, quoted_path};
use super::reach::ReachableBounds;
use super::route::{is_host, is_name, path_problem};
use super::routes::{RouteBounds, RouteDefaults, Routes};
use super::script::{ENV, reached, script, script_bounds, write_script};
use super::section::{Context, Section, Written};
use super::server::{BODY_BYTES, BODY_RATE};
use super::sources::source_file;
use super::stream::{Streams, check_name};
use super::text;
use super::units::TIMEOUT_MS;

keys! {
    /// The keys of `[[app]]`, without the keys of its table `[app.script]`.
    pub(super) KEYS of ();
    /// The path of the mount. Everything below belongs to the app.
    path [PATH] = other("needed", r#"`"/"`, or literal segments without a slash at the end"#);
    /// The host that the app answers for, as `host` of a route.
    host [HOST] = other("any", "a name or an address without a port");
    /// The folder of the app, relative to the folder of the configuration.
    dir [DIR] = other("needed", "a folder with an `app.toml`");
    /// The prefix of the names of its streams.
    stream_prefix [STREAM_PREFIX] = text("", "a prefix of a name");
    /// Overrides what `app.toml` says.
    script [SCRIPT] = other("what `app.toml` says", "the keys of [`[script]`](#script)");
}

keys! {
    /// `[limits]` of an `app.toml`.
    pub(super) LIMITS of RouteBounds;
    /// Bytes of a request's body.
    body_bytes_max = size(0, BODY_BYTES).inherits("as in `[server]`") => body_bytes_max;
    /// Time from the head to the last byte of the body. Then: 408.
    body_timeout = duration(0, TIMEOUT_MS).inherits("as in `[server]`") => body_pace.timeout;
    /// Bytes per second at which a body must arrive on average. Slower: 408. 0B: no minimum.
    body_rate_min = size(0, BODY_RATE).inherits("as in `[server]`") => body_pace.rate_min;
    /// Time that a body may be late, compared with `body_rate_min`.
    body_rate_grace = duration(0, TIMEOUT_MS).inherits("as in `[server]`") => body_pace.rate_grace;
}

/// One mount of an app, as the server uses it.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// `/`, or a path of literal segments without a slash at its end.
    pub(crate) path: String,
    /// The host of its requests. `None`: any host.
    pub(crate) host: Option<String>,
    /// The folder, as an absolute path.
    pub(crate) dir: PathBuf,
    /// The prefix of the names of its streams.
    pub(crate) stream_prefix: String,
    /// The streams of the app, by their index among all streams.
    pub(super) streams: Vec<usize>,
    /// The credentials that the app defines.
    pub(super) auths: Vec<Arc<AuthSpec>>,
    /// The text of its `app.toml`.
    pub(crate) text: SourceFile,
}

impl Mount {
    /// Returns the name of the mount: host and path.
    pub(crate) fn name(&self) -> String {
        match &self.host {
            Some(host) => format!("app \"{host}\" \"{}\"", self.path),
            None => format!("app \"{}\"", self.path),
        }
    }

    fn base(&self) -> &str {
        self.path.strip_suffix('/').unwrap_or(&self.path)
    }
}

/// Decides which variables of the environment an app may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppTrust {
    /// The configuration that mounts the app decides.
    Mounted,
    /// The app itself decides, because it is served without another configuration.
    Alone,
}

/// The values that apply where an app sets none.
pub(super) struct AppDefaults<'a> {
    /// The file of the configuration, as faults name it.
    pub(super) file: &'a Path,
    /// The folder of that file.
    pub(super) folder: &'a Path,
    pub(super) env: Environment<'a>,
    pub(super) trust: AppTrust,
    pub(super) script: &'a HostOptions,
    pub(super) log: &'a LogOptions,
    /// The databases that mounts may grant.
    pub(super) databases: &'a [Arc<dyn Database>],
    pub(super) backends: &'a [BackendOptions],
    /// The credentials of the server, which routes of apps may name too.
    pub(super) auths: &'a [Arc<AuthSpec>],
    pub(super) body_bytes_max: u64,
    pub(super) body_pace: BodyPace,
    pub(super) reach: ReachableBounds,
}

/// All mounts of a configuration.
#[derive(Default)]
pub(super) struct Apps {
    pub(super) mounts: Vec<Mount>,
    pub(super) specs: Vec<AppSpec>,
    /// The line and column of each mount in the file.
    pub(super) places: Vec<Location>,
    pub(super) routes: Routes,
}

/// A mount as the file writes it.
struct WrittenMount<'a> {
    path: String,
    host: Option<String>,
    dir: PathBuf,
    stream_prefix: String,
    /// The path of its `app.toml`, as faults name it.
    file: PathBuf,
    place: Location,
    script: Option<Section<'a>>,
}

/// Reads all mounts and their folders. Their streams are added to `streams`.
pub(super) fn apps(root: &mut Section<'_>, defaults: &AppDefaults<'_>, streams: &mut Streams) -> Apps {
    let sections = root.tables("app", "[[app]]", "a list of sections [[app]]").unwrap_or_default();
    let mut apps = Apps::default();
    for section in sections {
        let span = section.span().clone();
        let Some(written) = mount(section, defaults) else { continue };
        let same = |mount: &Mount| (&mount.path, &mount.host) == (&written.path, &written.host);
        if let Some(at) = apps.mounts.iter().position(same) {
            let (name, earlier) = (apps.mounts[at].name(), apps.places[at].beside(&written.place.file));
            root.fault_at(&span, format!("{name} is mounted twice, first at {earlier}"));
            continue;
        }
        read(written, defaults, streams, &mut apps, root);
    }
    apps
}

fn mount<'a>(mut section: Section<'a>, defaults: &AppDefaults<'_>) -> Option<WrittenMount<'a>> {
    let place = section.spot(section.span());
    let path = section.needed_text(PATH.name);
    if let Some(path) = &path
        && let Some(problem) = mount_problem(&path.value)
    {
        section.fault_at(&path.span, format!("path in [[app]] is {:?}, {problem}", path.value));
    }
    let host = section.text(HOST.name);
    if let Some(host) = host.as_ref().filter(|host| !is_host(&host.value)) {
        let text =
            format!("host in [[app]] is {:?}, allowed is a name or an address without a port", host.value);
        section.fault_at(&host.span, text);
    }
    let prefix = section
        .text(STREAM_PREFIX.name)
        .map_or(Some(String::new()), |prefix| stream_prefix(&section, prefix));
    let dir = section.needed_text(DIR.name);
    let found = dir.as_ref().and_then(|dir| app_dir(&section, dir, defaults));
    let script = section.take_table(SCRIPT.name, "[app.script]".to_owned());
    section.finish();
    let (dir, file) = found?;
    let host = host.map(|host| canonical_host(&host.value).into_owned());
    Some(WrittenMount { path: path?.value, host, dir, stream_prefix: prefix?, file, place, script })
}

fn stream_prefix(section: &Section<'_>, prefix: Written<String>) -> Option<String> {
    let is_sound = prefix.value.is_empty() || is_name(&prefix.value);
    if !is_sound {
        let (found, allowed) = (&prefix.value, "a letter or _, then letters, digits and _, like \"shop_\"");
        section
            .fault_at(&prefix.span, format!("stream_prefix in [[app]] is {found:?}, allowed is {allowed}"));
    }
    is_sound.then_some(prefix.value)
}

/// Returns the fault in the path of a mount, if there is one.
fn mount_problem(path: &str) -> Option<String> {
    let is_sound = path == "/"
        || (path_problem(path).is_none()
            && path.starts_with('/')
            && path.split('/').skip(1).all(|segment| !segment.is_empty() && !segment.contains(['{', '*'])));
    (!is_sound).then(|| {
        "allowed are \"/\" and literal segments like \"/shop\", without a slash at the end".to_owned()
    })
}

/// Returns the folder of an app, and the path of its `app.toml` as faults name it.
fn app_dir(
    section: &Section<'_>,
    written: &Written<String>,
    defaults: &AppDefaults<'_>,
) -> Option<(PathBuf, PathBuf)> {
    let dir =
        if written.value.is_empty() { defaults.folder.into() } else { defaults.folder.join(&written.value) };
    let wanted = dir.join(APP_FILE);
    if !wanted.is_file() {
        let found = &written.value;
        let text = denial(&wanted).unwrap_or_else(|| {
            let wanted = wanted.display();
            format!("dir in [[app]] is {found:?}, which has no {APP_FILE}: looked for {wanted}")
        });
        section.fault_at(&written.span, text);
        return None;
    }
    let beside = defaults.file.parent().unwrap_or(Path::new(""));
    Some((dir, beside.join(&written.value).join(APP_FILE)))
}

/// Reads the `app.toml` of a mount.
fn read(
    written: WrittenMount<'_>,
    defaults: &AppDefaults<'_>,
    streams: &mut Streams,
    apps: &mut Apps,
    root: &Section<'_>,
) {
    let WrittenMount { path, host, dir, stream_prefix, file, place, script } = written;
    let text = match text::read(&file, "the app") {
        Ok(text) => text,
        Err(error) => return root.add_faults(error.faults),
    };
    let source = source_file(&dir.join(APP_FILE), &text);
    let mount =
        Mount { path, host, dir, stream_prefix, streams: Vec::new(), auths: Vec::new(), text: source };
    let reachable = Reachable {
        folder: defaults.folder,
        log: defaults.log,
        databases: defaults.databases,
        access: ScriptAccess::default(),
    };
    let (script, granted) = Granted::read(script, defaults.trust, &reachable);
    let env = |name: &str| if granted.allows(name) { (defaults.env)(name) } else { None };
    let faults = Faults::new(&file, &text);
    if let Some(document) = text::parse(&text, &faults) {
        let context = Context { faults: &faults, env: &env };
        let section = Section::new(context, "the file", 0..0, document.get_ref());
        let app = Bundle { mount: &mount, place: &place, granted: &granted, index: apps.mounts.len() };
        let (spec, routes, own, auths) = app.read(section, script, defaults, streams);
        apps.specs.push(spec);
        apps.routes.extend(routes);
        apps.mounts.push(Mount { streams: own, auths, ..mount });
        apps.places.push(place);
    }
    root.add_faults(faults.into_error().faults);
}

/// Grants of a mount to its app: variables of the environment, folders and databases.
struct Granted {
    env: Vec<String>,
    access: ScriptAccess,
    trust: AppTrust,
}

impl Granted {
    /// Reads the grants in `[app.script]`. Grants take precedence over the app's own keys.
    fn read<'a>(
        mut script: Option<Section<'a>>,
        trust: AppTrust,
        reachable: &Reachable<'_>,
    ) -> (Option<Section<'a>>, Self) {
        let names = script.as_mut().and_then(|script| script.texts(ENV.name)).unwrap_or_default();
        let env = names.into_iter().map(|name| name.value).collect();
        let access = script.as_mut().map(|script| reached(script, reachable)).unwrap_or_default();
        (script, Self { env, access, trust })
    }

    fn allows(&self, name: &str) -> bool {
        self.trust == AppTrust::Alone || self.env.iter().any(|known| known == name)
    }
}

/// The folder of a mount while it is read.
struct Bundle<'a> {
    mount: &'a Mount,
    place: &'a Location,
    granted: &'a Granted,
    index: usize,
}

impl Bundle<'_> {
    fn read(
        self,
        mut root: Section<'_>,
        mounted: Option<Section<'_>>,
        defaults: &AppDefaults<'_>,
        streams: &mut Streams,
    ) -> (AppSpec, Routes, Vec<usize>, Vec<Arc<AuthSpec>>) {
        let mut limits = root.table("limits");
        let (body_bytes_max, body_pace) = (defaults.body_bytes_max, defaults.body_pace);
        let mut bounds = RouteBounds { body_bytes_max, body_pace, concurrency_max: None, refused: false };
        limits.overlay(LIMITS, &mut bounds);
        let RouteBounds { body_bytes_max, body_pace, .. } = bounds;
        defaults.reach.check_body(&limits, body_bytes_max);
        limits.finish();
        let mut wanted = root.table("script");
        self.check_env(&mut wanted);
        let host = HostOptions { env: Vec::new(), ..defaults.script.clone() };
        // Scripts of an app may reach folders inside of the app's folder, and the folders and databases that
        // the mount grants.
        let granted = &self.granted.access;
        let reachable = Reachable {
            folder: &self.mount.dir,
            log: defaults.log,
            databases: &granted.databases,
            access: granted.clone(),
        };
        let (host, mut access) = script(wanted, host, &reachable);
        check_inside(&root, access_beyond(&access, granted), &self.mount.dir);
        keep_inside(&mut access, granted, &self.mount.dir);
        let reachable = Reachable { access, ..reachable };
        let own = Streams::read(&mut root);
        let places = self.join(&own, streams, &root);
        let auth_place = AuthPlace { folder: &self.mount.dir, backends: defaults.backends, is_app: true };
        let auths = Auths::read(&mut root, auth_place, format!("{} ", self.mount.name()));
        let own_auths = auths.specs.clone();
        let route_defaults = RouteDefaults {
            auths: auths.with(defaults.auths),
            folder: &self.mount.dir,
            streams: &own.specs,
            backends: defaults.backends,
            body_bytes_max,
            body_pace,
            reach: defaults.reach,
            reachable,
            is_app: true,
        };
        let mut routes = Routes::read(&mut root, &route_defaults);
        root.finish();
        for route in &mut routes.specs {
            self.place_route(route, &places);
        }
        let host = match mounted {
            // The grants of the mount are read already, because their folders are relative to the
            // configuration.
            Some(mut section) => {
                let host = script_bounds(&mut section, host);
                section.finish();
                host
            }
            None => host,
        };
        let base = self.mount.base().to_owned();
        let script = HostOptions { base: base.clone(), shared: Default::default(), ..host };
        let names = own.specs.iter().map(|spec| spec.name.clone());
        let streams = names.zip(places.iter().copied()).collect();
        (AppSpec { base, host: self.mount.host.clone(), streams, script }, routes, places, own_auths)
    }

    /// Places a route below the mount: sets its path, host, app and stream.
    fn place_route(&self, route: &mut RouteSpec, places: &[usize]) {
        route.path = format!("{}{}", self.mount.base(), route.path);
        route.host.clone_from(&self.mount.host);
        route.app = Some(self.index);
        route.stream = route.stream.and_then(|stream| places.get(stream).copied());
    }

    /// Adds a fault for each variable that the app names and the mount does not grant.
    fn check_env(&self, wanted: &mut Section<'_>) {
        for name in wanted.texts(ENV.name).unwrap_or_default() {
            if !self.granted.allows(&name.value) {
                let (text, place) = (&name.value, self.place);
                wanted.fault_at(
                    &name.span,
                    format!(
                        "env in [script] has {text:?}, which the mount does not grant: add it to env in \
                         [app.script] of the [[app]] at {place}"
                    ),
                );
            }
        }
    }

    /// Adds the streams of the app to all streams, and returns their indexes. Mounts of the same folder with
    /// the same prefix share their streams.
    fn join(&self, own: &Streams, all: &mut Streams, root: &Section<'_>) -> Vec<usize> {
        let mut places = Vec::new();
        for (spec, origin) in own.specs.iter().zip(&own.origins) {
            let name = format!("{}{}", self.mount.stream_prefix, spec.name);
            let known = all.specs.iter().position(|known| known.name.eq_ignore_ascii_case(&name));
            if let Some(at) = known {
                let earlier = &all.origins[at];
                if all.specs[at].name != name || !earlier.place.is_that_of(&origin.place) {
                    let place = earlier.place.beside(&origin.place.file);
                    let text = format!(
                        "stream {name:?} is declared twice, first at {place}: rename it, or set \
                         stream_prefix in the [[app]] at {}",
                        self.place
                    );
                    root.fault_at(&origin.span, text);
                }
                places.push(at);
                continue;
            }
            check_name(&Written { value: name.clone(), span: origin.span.clone() }, root);
            places.push(all.specs.len());
            let awaited = own.awaited.iter().filter(|awaited| awaited.stream == spec.name);
            all.awaited.extend(awaited.map(|awaited| awaited.clone().of(&name)));
            all.specs.push(StreamSpec { name, ..spec.clone() });
            all.origins.push(origin.clone());
        }
        places
    }
}

/// Finds routes outside of an app that would match requests below its mount.
pub(super) fn check_intruders(root: &Section<'_>, apps: &Apps, routes: &Routes) {
    for ((index, app), mount) in apps.specs.iter().enumerate().zip(&apps.mounts) {
        let pattern = app.pattern();
        let name = mount.name();
        for (route, place) in routes.specs.iter().zip(&routes.places) {
            if route.app != Some(index) && route.host == app.host && route.path == pattern {
                let mount = apps.places[index].beside(&place.file);
                let fault = format!(
                    "route {:?} matches every request of {name} at {mount}: choose another path or host",
                    route.path
                );
                root.add_faults(vec![place.fault(fault)]);
            }
        }
    }
}

/// Writes the section of a mount, without the keys of its `app.toml`.
pub(super) fn write_mount(mount: &Mount, script: &HostOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[[app]]")?;
    let own = [
        (PATH.name, Some(quoted(&mount.path))),
        (HOST.name, mount.host.as_deref().map(quoted)),
        (DIR.name, Some(quoted_path(&mount.dir))),
        (STREAM_PREFIX.name, Some(quoted(&mount.stream_prefix))),
    ];
    write(KEYS, &(), &own, f)?;
    writeln!(f, "[app.script]")?;
    write_script(script, f)
}
