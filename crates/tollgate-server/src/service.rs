//! What a configuration makes in a worker: its routes, scripts and rules. A reload swaps it as a whole.
//!
//! A request keeps the endpoint that it was led to, and with it the scripts and the stream, until it ends; a connection keeps
//! the rules until its next request. What nobody keeps goes with the swap, the old VM too.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_backend::{Backend, BackendOptions, Client};
use tollgate_http::{Method, Methods, RequestHead, StatusCode, normalise_path, write_path, write_target};
use tollgate_log::{Log, SchemaId};
use tollgate_script::Host;

use crate::conn::Destination;
use crate::cors::{self, Cors};
use crate::error::StartError;
use crate::files::Work;
use crate::handler::{BackendFetcher, Endpoint, Routes, allowed_methods};
use crate::options::{ConnectionLimits, RequestIds, RouteSpec, ServerOptions};
use crate::reply::Reply;
use crate::route::{Resource, RouteTable, Routed};
use crate::transaction::StreamPlan;
use crate::trust::TrustedProxies;

/// A configuration with the numbers that its streams have in the log.
pub(crate) struct Plan {
    pub(crate) options: ServerOptions,
    /// By the place of the stream in the options.
    schemas: Vec<SchemaId>,
    /// By the place of the backend in the options.
    pub(crate) backends: Vec<Arc<Backend>>,
}

impl Plan {
    /// Declares the streams in the log. Backends that are as they were `before` go on with what is known of them.
    ///
    /// # Errors
    /// A stream that the log does not take.
    pub(crate) fn new(
        options: ServerOptions,
        log: &Log,
        before: &[Arc<Backend>],
    ) -> Result<Self, StartError> {
        let schema = |stream: &crate::StreamSpec| {
            let name = stream.name.clone();
            stream.schema().map_err(|source| StartError::Stream { name, source })
        };
        let schemas = options.streams.iter().map(schema).collect::<Result<Vec<_>, _>>()?;
        let schemas = log.declare(schemas).map_err(StartError::Schemas)?;
        let backends = Backend::all(&options.backends, before);
        Ok(Self { options, schemas, backends })
    }

    /// Numbers the streams as they stand in the options: nothing will be recorded, and no backend asked.
    pub(crate) fn unrecorded(options: ServerOptions) -> Self {
        let schemas = (0..u16::MAX).map(SchemaId).take(options.streams.len()).collect();
        let unknown = options.backends.iter().cloned();
        let unknown = unknown.map(|backend| BackendOptions { addresses: Vec::new(), ..backend });
        let backends = Backend::all(&unknown.collect::<Vec<_>>(), &[]);
        Self { options, schemas, backends }
    }
}

/// What connections go by.
pub(crate) struct Rules {
    pub(crate) limits: ConnectionLimits,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) request_ids: RequestIds,
    pub(crate) drain_timeout: Duration,
}

impl Rules {
    fn new(options: &ServerOptions) -> Self {
        Self {
            limits: options.connection.clone(),
            trusted_proxies: options.trusted_proxies.clone(),
            request_ids: options.request_ids,
            drain_timeout: options.drain_timeout,
        }
    }

    /// Whether replies of handlers tell the id of their request.
    pub(crate) fn tells_request_ids(&self) -> bool {
        self.request_ids != RequestIds::Silent
    }
}

/// What a configuration makes in a worker.
pub(crate) struct Service {
    pub(crate) host: Host,
    pub(crate) rules: Rc<Rules>,
    /// A digest of its scripts.
    pub(crate) sources: u64,
    pub(crate) client: Rc<Client>,
    routes: Rc<Routes>,
}

/// A service that is being made, route by route: scripts are loaded meanwhile.
pub(crate) struct Building<'a> {
    options: &'a ServerOptions,
    host: Host,
    streams: Rc<[Rc<StreamPlan>]>,
    work: Rc<Work>,
    client: Rc<Client>,
    routes: Routes,
}

impl<'a> Building<'a> {
    /// Connections to backends that are those of `before` go on.
    pub(crate) fn new(plan: &'a Plan, before: &Client) -> Result<Self, StartError> {
        let Plan { options, schemas, backends } = plan;
        let client = Rc::new(Client::new(backends, before));
        let host =
            Host::new(options.script.clone()).map_err(|error| StartError::Script(error.to_string()))?;
        host.set_fetcher(Rc::new(BackendFetcher(client.clone())));
        let streams = options.streams.iter().zip(schemas);
        let streams: Rc<[_]> = streams.map(|(spec, id)| Rc::new(StreamPlan::new(*id, spec))).collect();
        let emitted: Vec<_> = streams.iter().map(|stream| stream.for_scripts()).collect();
        let host = host.with_streams(&emitted).map_err(|error| StartError::Script(error.to_string()))?;
        Ok(Self { options, host, streams, work: Rc::default(), client, routes: RouteTable::default() })
    }

    /// Adds a route; loads its script.
    ///
    /// # Errors
    /// The script was not taken.
    pub(crate) fn add(&mut self, spec: &RouteSpec) -> Result<(), StartError> {
        let endpoint = Endpoint::new(spec, &self.streams, &self.host, &self.work, &self.client)
            .map_err(|error| StartError::Script(error.to_string()))?;
        let methods = endpoint.methods;
        self.routes.insert(spec.host.as_deref(), &spec.path, methods, Rc::new(endpoint));
        Ok(())
    }

    pub(crate) fn finish(self) -> Service {
        Service {
            sources: self.host.sources_digest(),
            client: self.client,
            host: self.host,
            rules: Rc::new(Rules::new(self.options)),
            routes: Rc::new(self.routes),
        }
    }
}

impl Service {
    /// Makes it in one go.
    ///
    /// # Errors
    /// A script was not taken.
    pub(crate) fn new(plan: &Plan) -> Result<Self, StartError> {
        let mut building = Building::new(plan, &Client::default())?;
        plan.options.routes.iter().try_for_each(|route| building.add(route))?;
        Ok(building.finish())
    }

    /// Finds out where a request leads.
    pub(crate) fn find(&self, head: &RequestHead) -> Destination {
        let path = match normalise_path(head.path()) {
            Ok(path) => path,
            Err(error) => {
                tracing::debug!("request refused: {error}");
                return Destination::Reply(Reply::text(error.status(), error.client_text()).into());
            }
        };
        if let Some(reply) = self.preflight(head, &path) {
            return Destination::Reply(reply.into());
        }
        let reply = match self.routes.find(|| head.host(), &path, head.method()) {
            Routed::Found(found) => {
                let endpoint = found.endpoint().clone();
                let mut place = found.place();
                if let Cow::Owned(path) = path {
                    place.decoded = Some(path.into());
                }
                return Destination::Endpoint { endpoint, place, routes: self.routes.clone() };
            }
            Routed::MethodNotAllowed(resource) => {
                let status = match head.method() {
                    Method::Options => StatusCode::NO_CONTENT,
                    _ => StatusCode::METHOD_NOT_ALLOWED,
                };
                let mut reply = allowed(status, resource.methods());
                if let Some(cors) = policy(&resource) {
                    cors.grant(head).add_to(&mut reply);
                }
                reply
            }
            Routed::MissingSlash => redirect_below(&path, head.query()),
            // RFC 9110 section 9.3.7: the server as a whole.
            Routed::NotFound if path == "*" => {
                allowed(StatusCode::NO_CONTENT, Method::ALL.into_iter().collect())
            }
            Routed::NotFound => Reply::text(StatusCode::NOT_FOUND, "nothing is here"),
        };
        Destination::Reply(reply.into())
    }

    /// Answers a preflight to a route with a policy: the one that takes the method which is asked for, or, if none does,
    /// the first of that path.
    fn preflight(&self, head: &RequestHead, path: &str) -> Option<Reply> {
        if !cors::is_preflight(head) {
            return None;
        }
        let method = cors::requested_method(head).unwrap_or(Method::Options);
        let cors = match self.routes.find(|| head.host(), path, method) {
            Routed::Found(found) => found.endpoint().cors.as_ref(),
            Routed::MethodNotAllowed(resource) => policy(&resource),
            Routed::MissingSlash | Routed::NotFound => None,
        };
        cors.map(|cors| cors.preflight(head))
    }
}

/// The policy of a path whose routes do not take the method.
fn policy<'t>(resource: &Resource<'t, Rc<Endpoint>>) -> Option<&'t Cors> {
    resource.endpoints().find_map(|endpoint| endpoint.cors.as_ref())
}

fn allowed(status: StatusCode, methods: Methods) -> Reply {
    let reply = match status {
        StatusCode::NO_CONTENT => Reply::empty(status),
        _ => Reply::text(status, "this method is not allowed here"),
    };
    reply.with("Allow", allowed_methods(methods))
}

/// From the path as it is matched: one as sent, `//host/../docs`, may lead to another server.
pub(crate) fn redirect_below(path: &str, query: Option<&str>) -> Reply {
    let mut location = Vec::new();
    write_path(&mut location, path);
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        write_target(&mut location, query);
    }
    Reply::text(StatusCode::PERMANENT_REDIRECT, "it is below, after a slash").with("Location", location)
}
