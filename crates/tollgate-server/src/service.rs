//! The result of a configuration in a worker: its routes, scripts and rules. A reload replaces it as a whole.
//!
//! A request keeps its endpoint until it ends, with the scripts and the stream. A connection keeps the rules
//! until its next request. At the replacement, all parts that no request and no connection keeps are dropped.
//! The old VM is one of these parts.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_backend::{Backend, BackendOptions, Client};
use tollgate_files::{DescriptorCache, Etag, FilesSpec, SharedFiles};
use tollgate_http::Method;
use tollgate_http::route::RouteTable;
use tollgate_log::{Log, SchemaId};
use tollgate_tls::ServerTls;

use crate::access_log::AccessLog;
use crate::app::{Hosts, Sources};
use crate::auth::{Authenticator, Guard, PasswordPool, RemoteKeys};
use crate::choice::{Choice, XmlValues};
use crate::error::StartError;
use crate::handler::{Endpoint, Routes, Scripts};
use crate::https::{CHALLENGES, HttpsRules};
use crate::observe::{RouteCells, RouteName, WorkerCells};
use crate::options::{
    ChosenHandler, ConnectionLimits, Dev, HandlerSpec, RequestIds, RouteSpec, ServerOptions, Traces,
};
use crate::overload::{ScriptQueue, Throttle};
use crate::row::StreamPlan;
use crate::trust::TrustedProxies;

/// A configuration, with the schema number that the log has assigned to each stream.
pub(crate) struct Plan {
    pub(crate) options: ServerOptions,
    /// Schema numbers, by the index of the stream in the options.
    schemas: Vec<SchemaId>,
    /// The name of this machine, as the log has it. A reload does not change it.
    node: String,
    /// Backends, by their index in the options.
    pub(crate) backends: Vec<Arc<Backend>>,
    /// Throttles, by the index of the route in the options.
    throttles: Vec<Option<Arc<Throttle>>>,
    /// The checks of credentials, by the index of the route in the options.
    authenticators: Vec<Option<Arc<Authenticator>>>,
    /// The threads that check passwords.
    passwords: Arc<PasswordPool>,
}

impl Plan {
    /// Declares the streams in the log. Backends and limits that did not change since `before` keep their
    /// state.
    ///
    /// # Errors
    /// The log does not accept a stream.
    pub(crate) fn new(options: ServerOptions, log: &Log, before: Option<&Self>) -> Result<Self, StartError> {
        let schema = |stream: &crate::StreamSpec| {
            let name = stream.name.clone();
            stream.schema().map_err(|source| StartError::Stream { name, source })
        };
        let schemas = options.streams.iter().map(schema).collect::<Result<Vec<_>, _>>()?;
        let schemas = log.declare(schemas).map_err(StartError::Schemas)?;
        let backends = Backend::all(&options.backends, before.map_or(&[], |before| &before.backends));
        let throttles = throttles(&options, before.map_or(&[], |before| &before.throttles));
        let passwords = before.map_or_else(Arc::default, |before| before.passwords.clone());
        let known = before.map_or(&[][..], |before| &before.authenticators);
        let authenticators = authenticators(&options, known, &passwords);
        let node = log.node().to_owned();
        Ok(Self { options, schemas, node, backends, throttles, authenticators, passwords })
    }

    /// Creates the plan of a service that records nothing and asks no backend. The streams are numbered in
    /// the order of the options.
    pub(crate) fn unrecorded(options: ServerOptions) -> Self {
        let schemas = (0..u16::MAX).map(SchemaId).take(options.streams.len()).collect();
        let unknown = options.backends.iter().cloned();
        let unknown = unknown.map(|backend| BackendOptions { addresses: Vec::new(), ..backend });
        let backends = Backend::all(&unknown.collect::<Vec<_>>(), &[]);
        let passwords = Arc::default();
        Self {
            throttles: throttles(&options, &[]),
            authenticators: authenticators(&options, &[], &passwords),
            passwords,
            options,
            schemas,
            node: String::new(),
            backends,
        }
    }

    /// Lists the sets of keys that backends publish, each once, with the name of its section.
    pub(crate) fn remote_keys(&self) -> Vec<(&str, &Arc<RemoteKeys>)> {
        let mut all: Vec<(&str, &Arc<RemoteKeys>)> = Vec::new();
        for authenticator in self.authenticators.iter().flatten() {
            if let Some(keys) = &authenticator.remote_keys
                && !all.iter().any(|(_, known)| Arc::ptr_eq(known, keys))
            {
                all.push((&authenticator.spec.id, keys));
            }
        }
        all
    }
}

fn throttles(options: &ServerOptions, before: &[Option<Arc<Throttle>>]) -> Vec<Option<Arc<Throttle>>> {
    options.routes.iter().map(|route| Throttle::new(route, before)).collect()
}

/// Creates the checks of credentials. Routes with the same section share one. State of the same section in
/// `before` is kept.
fn authenticators(
    options: &ServerOptions,
    before: &[Option<Arc<Authenticator>>],
    passwords: &Arc<PasswordPool>,
) -> Vec<Option<Arc<Authenticator>>> {
    let mut all: Vec<Option<Arc<Authenticator>>> = Vec::new();
    for route in &options.routes {
        let one = route.auth.as_ref().map(|auth| {
            let shared = all.iter().flatten().find(|known| Arc::ptr_eq(&known.spec, &auth.spec));
            shared.cloned().unwrap_or_else(|| {
                let before = before.iter().flatten().find(|before| before.spec.id == auth.spec.id);
                Authenticator::new(&auth.spec, before.map(|before| &**before), passwords)
            })
        });
        all.push(one);
    }
    all
}

/// The rules for connections.
pub(crate) struct Rules {
    pub(crate) limits: ConnectionLimits,
    pub(crate) tls: Option<Arc<ServerTls>>,
    pub(crate) https: HttpsRules,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) request_ids: RequestIds,
    pub(crate) traces: Traces,
    /// The rules of the access log. `None`: no request gets a line.
    pub(crate) access_log: Option<Rc<AccessLog>>,
    pub(crate) drain_timeout: Duration,
}

impl Rules {
    fn new(options: &ServerOptions) -> Self {
        let mut limits = options.connection.clone();
        limits.head.extension_methods = options.routes.iter().any(RouteSpec::takes_extension_methods);
        Self {
            limits,
            tls: options.tls.clone(),
            https: HttpsRules::new(&options.https),
            trusted_proxies: options.trusted_proxies.clone(),
            request_ids: options.request_ids,
            traces: options.traces,
            access_log: AccessLog::new(options).map(Rc::new),
            drain_timeout: options.drain_timeout,
        }
    }

    /// Returns whether replies of handlers have the id of their request.
    pub(crate) fn sends_request_ids(&self) -> bool {
        self.request_ids != RequestIds::Silent
    }
}

/// The result of a configuration in a worker.
pub(crate) struct Service {
    pub(crate) hosts: Hosts,
    pub(crate) rules: Rc<Rules>,
    /// The sources of its scripts.
    pub(crate) sources: Sources,
    pub(crate) client: Rc<Client>,
    /// The open files of its file routes.
    pub(crate) descriptors: Rc<DescriptorCache>,
    /// The sets of keys that backends publish.
    pub(crate) remote_keys: Vec<Arc<RemoteKeys>>,
    /// Counters of its routes.
    pub(crate) route_cells: Vec<Arc<RouteCells>>,
    pub(crate) routes: Rc<Routes>,
    /// The route of answers to challenges of an ACME server. `None`: this server answers none.
    pub(crate) challenges: Option<Rc<Routes>>,
    /// Development mode, with faults that prevent serving.
    pub(crate) dev: Option<Dev>,
}

/// A service that is built route by route. Each route loads its scripts.
pub(crate) struct Building<'a> {
    options: &'a ServerOptions,
    /// Throttles of the routes that were not added yet.
    throttles: std::slice::Iter<'a, Option<Arc<Throttle>>>,
    /// Checks of credentials of the routes that were not added yet.
    authenticators: std::slice::Iter<'a, Option<Arc<Authenticator>>>,
    remote_keys: Vec<Arc<RemoteKeys>>,
    hosts: Hosts,
    streams: Rc<[Rc<StreamPlan>]>,
    shared_files: SharedFiles,
    client: Rc<Client>,
    script_queue: &'a Rc<ScriptQueue>,
    cells: &'a WorkerCells,
    route_cells: Vec<Arc<RouteCells>>,
    routes: Routes,
    challenges: Option<Rc<Routes>>,
}

impl<'a> Building<'a> {
    /// Begins a service. Connections to backends that did not change since `before` stay open.
    pub(crate) fn new(
        plan: &'a Plan,
        before: &Client,
        script_queue: &'a Rc<ScriptQueue>,
        cells: &'a WorkerCells,
    ) -> Result<Self, StartError> {
        let Plan { options, schemas, node, backends, throttles, authenticators, .. } = plan;
        let client = Rc::new(Client::new(backends, before));
        let streams = options.streams.iter().zip(schemas);
        let streams: Rc<[_]> = streams.map(|(spec, id)| Rc::new(StreamPlan::new(*id, spec, node))).collect();
        let hosts = Hosts::new(options, &streams).map_err(|error| StartError::Script(error.to_string()))?;
        let (shared_files, route_cells, routes) =
            (SharedFiles::new(options.capacity.files_open_max as u64), Vec::new(), RouteTable::default());
        let (throttles, authenticators) = (throttles.iter(), authenticators.iter());
        let mut building = Self {
            options,
            throttles,
            authenticators,
            remote_keys: plan.remote_keys().into_iter().map(|(_, keys)| keys.clone()).collect(),
            hosts,
            streams,
            shared_files,
            client,
            script_queue,
            cells,
            route_cells,
            routes,
            challenges: None,
        };
        building.challenges = building.challenges()?;
        Ok(building)
    }

    /// Returns the route of answers to challenges of an ACME server.
    fn challenges(&mut self) -> Result<Option<Rc<Routes>>, StartError> {
        let Some(folder) = &self.options.challenges else { return Ok(None) };
        let files = FilesSpec {
            index: Vec::new(),
            etag: Etag::Off,
            precompressed: false,
            recheck: Duration::ZERO,
            ..FilesSpec::new(folder.clone())
        };
        let spec = RouteSpec::new(&format!("{CHALLENGES}*"), HandlerSpec::Files(Box::new(files)));
        let endpoint = self.endpoint(&spec)?;
        let mut routes = RouteTable::default();
        let methods = endpoint.methods;
        routes.insert(None, &spec.path, methods, Some(Rc::new(endpoint)));
        Ok(Some(Rc::new(routes)))
    }

    /// Adds the next route, and loads its scripts.
    ///
    /// # Errors
    /// A script was not accepted.
    pub(crate) fn add(&mut self, spec: &RouteSpec) -> Result<(), StartError> {
        let mut endpoint = self.endpoint(spec)?;
        endpoint.throttle = self.throttles.next().cloned().flatten();
        let authenticator = self.authenticators.next().cloned().flatten();
        endpoint.auth = authenticator
            .zip(spec.auth.as_ref())
            .map(|(authenticator, auth)| Guard::new(authenticator, auth.requirement.clone()));
        endpoint.streams = self.hosts.streams_of(spec, &self.streams);
        let methods = endpoint.methods;
        self.routes.insert(spec.host.as_deref(), &spec.path, methods, Some(Rc::new(endpoint)));
        Ok(())
    }

    /// Creates the endpoint of a route. If the route chooses its handler, each handler gets an endpoint.
    fn endpoint(&mut self, spec: &RouteSpec) -> Result<Endpoint, StartError> {
        let cells = self.cells.route(RouteName::of(spec));
        self.route_cells.push(cells.clone());
        let HandlerSpec::When(when) = &spec.handler else { return self.endpoint_of(spec, cells) };
        let of = |handler: &ChosenHandler| RouteSpec {
            methods: spec.known_methods(),
            handler: handler.into(),
            ..spec.clone()
        };
        // Until the choice, the request is one to a backend, if there is one: its content arrives as sent.
        let is_proxy = |handler: &&ChosenHandler| matches!(handler, ChosenHandler::Proxy(_));
        let first = when.handlers().find(is_proxy).unwrap_or(&when.otherwise);
        let mut entry = self.endpoint_of(&of(first), cells.clone())?;
        let stream = spec.stream.and_then(|stream| self.streams.get(stream));
        let paths = stream.map(|stream| stream.look_ahead_paths()).unwrap_or_default();
        let values = XmlValues::new(paths, &when.namespaces).map_err(StartError::Script)?;
        let choice = Choice::new(when, values, self.options.script.doctype, |handler| {
            let mut endpoint = self.endpoint_of(&of(handler), cells.clone())?;
            endpoint.cells = entry.cells.clone();
            endpoint.validation = entry.validation.clone();
            endpoint.streams = self.hosts.streams_of(spec, &self.streams);
            Ok::<_, StartError>(Rc::new(endpoint))
        })?;
        entry.choice = Some(Box::new(choice));
        Ok(entry)
    }

    fn endpoint_of(&mut self, spec: &RouteSpec, cells: Arc<RouteCells>) -> Result<Endpoint, StartError> {
        let scripts =
            Scripts { host: self.hosts.of(spec).clone(), route_cost: self.script_queue.route_cost() };
        Endpoint::new(spec, &self.streams, scripts, &self.shared_files, &self.client, cells, self.options)
            .map_err(|error| StartError::Script(error.to_string()))
    }

    pub(crate) fn finish(mut self) -> Service {
        self.close_apps();
        Service {
            sources: self.hosts.sources(),
            client: self.client,
            descriptors: self.shared_files.descriptors(),
            remote_keys: self.remote_keys,
            rules: Rc::new(Rules::new(self.options)),
            route_cells: self.route_cells,
            hosts: self.hosts,
            routes: Rc::new(self.routes),
            challenges: self.challenges,
            dev: self.options.dev.clone(),
        }
    }

    /// Reserves the paths below each app that no route of the app matches.
    fn close_apps(&mut self) {
        let Self { options, routes, .. } = self;
        for app in &options.apps {
            let pattern = app.pattern();
            let is_taken = |route: &RouteSpec| route.path == pattern && route.host == app.host;
            if !options.routes.iter().any(is_taken) {
                routes.insert(app.host.as_deref(), &pattern, Method::ALL.into_iter().collect(), None);
            }
        }
    }
}

impl Service {
    /// Builds the whole service at once.
    ///
    /// # Errors
    /// A script was not accepted.
    pub(crate) fn new(
        plan: &Plan,
        script_queue: &Rc<ScriptQueue>,
        cells: &WorkerCells,
    ) -> Result<Self, StartError> {
        let mut building = Building::new(plan, &Client::default(), script_queue, cells)?;
        plan.options.routes.iter().try_for_each(|route| building.add(route))?;
        Ok(building.finish())
    }

    /// Returns the memory of its scripts, in bytes.
    pub(crate) fn script_bytes(&self) -> usize {
        self.hosts.memory_bytes()
    }
}
