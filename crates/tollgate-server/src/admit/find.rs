//! Finds the route of a request, or the reply of the server if there is no route.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use tollgate_http::route::{Match, Resource, Routed};
use tollgate_http::{
    Method, Methods, RequestError, RequestHead, StatusCode, normalise_path,
    normalise_path_with_encoded_slashes,
};

use super::arrived::Destination;
use crate::cors::{self, Cors};
use crate::handler::{Endpoint, Routes};
use crate::https::is_challenge;
use crate::observe::RequestFault;
use crate::reply::{Reply, allowed_methods, redirect_below};
use crate::service::Service;

/// A route that matches a request.
pub(crate) struct FoundRoute<'s> {
    pub(crate) endpoint: &'s Rc<Endpoint>,
    found: Match<'s, Option<Rc<Endpoint>>>,
    /// The normalised path, if it differs from the path as sent.
    decoded: Option<String>,
    routes: &'s Rc<Routes>,
}

impl Service {
    /// Finds the route of a request. Returns the reply if there is none.
    #[inline]
    pub(crate) fn find(&self, head: &RequestHead) -> Result<FoundRoute<'_>, Box<Reply>> {
        if let Some(found) = self.challenges.as_ref().and_then(|routes| challenge(routes, head)) {
            return Ok(found);
        }
        if let Some(reply) = self.dev.as_ref().and_then(|dev| dev.refusal(head)) {
            return Err(reply.into());
        }
        let decoded = match decoded_path(head) {
            Ok(decoded) => decoded,
            Err(error) => Some(self.path_with_encoded_slashes(head).ok_or_else(|| refused_path(&error))?),
        };
        let path = decoded.as_deref().map_or_else(|| head.path_bytes(), str::as_bytes);
        if let Some(reply) = self.preflight(head, path) {
            return Err(reply.into());
        }
        match self.routes.find(|| head.host(), path, head.method()) {
            Routed::Found(found) => match found.endpoint() {
                Some(endpoint) if !endpoint.takes_method_of(head) => {
                    let reply = endpoint.granted(unknown_method(), head);
                    endpoint.note_fault(RequestFault::Method, head, &reply);
                    Err(reply.into())
                }
                Some(endpoint) => Ok(FoundRoute { endpoint, found, decoded, routes: &self.routes }),
                None => Err(not_found().into()),
            },
            other => Err(self.no_route(head, decoded.as_deref(), &other).into()),
        }
    }

    /// Creates the reply to a request for which the lookup found no route: 404, 405, a redirect, or the reply
    /// to `OPTIONS *`.
    #[cold]
    fn no_route(
        &self,
        head: &RequestHead,
        decoded: Option<&str>,
        routed: &Routed<'_, Option<Rc<Endpoint>>>,
    ) -> Reply {
        match routed {
            Routed::MethodNotAllowed(resource) => {
                let status = match head.method() {
                    Method::Options => StatusCode::NO_CONTENT,
                    _ => StatusCode::METHOD_NOT_ALLOWED,
                };
                let mut reply = match head.method() {
                    Method::Extension => unknown_method(),
                    _ => allowed(status, resource.methods()),
                };
                if let Some(lines) = lines(routed) {
                    reply.lines = lines;
                }
                if let Some((_, cors)) = policy(routed) {
                    cors.grant(head).add_to(&mut reply);
                }
                note_refused_method(resource, head, &reply);
                reply
            }
            Routed::MissingSlash => {
                let path = decoded.unwrap_or_else(|| head.path());
                let mut reply = redirect_below(path, head.query());
                let below = [path.as_bytes(), b"/"].concat();
                let routed = self.routes.find(|| head.host(), &below, head.method());
                if let Some(lines) = lines(&routed) {
                    reply.lines = lines;
                }
                if let Some((_, cors)) = policy(&routed) {
                    cors.grant(head).add_to(&mut reply);
                }
                reply
            }
            // RFC 9110 section 9.3.7: `*` means the server as a whole.
            Routed::NotFound if head.path_bytes() == b"*" => {
                allowed(StatusCode::NO_CONTENT, Method::ALL.into_iter().collect())
            }
            Routed::NotFound | Routed::Found(_) => not_found(),
        }
    }

    /// Returns the path of a request with an encoded slash, if its route forwards such paths.
    #[cold]
    fn path_with_encoded_slashes(&self, head: &RequestHead) -> Option<String> {
        let path = normalise_path_with_encoded_slashes(head.path()).ok()?;
        let passes = |endpoint: &Option<Rc<Endpoint>>| {
            endpoint.as_ref().is_some_and(|one| one.passes_encoded_slashes())
        };
        let is_passed = match self.routes.find(|| head.host(), path.as_bytes(), head.method()) {
            Routed::Found(found) => passes(found.endpoint()),
            Routed::MethodNotAllowed(resource) => resource.endpoints().all(passes),
            Routed::MissingSlash | Routed::NotFound => false,
        };
        is_passed.then_some(path)
    }

    /// Answers a preflight to a route with a CORS policy. The route for the requested method
    /// has the policy. If no route has this method, the first route of the path decides.
    #[inline]
    fn preflight(&self, head: &RequestHead, path: &[u8]) -> Option<Reply> {
        if !cors::is_preflight(head) {
            return None;
        }
        let method = cors::requested_method(head).unwrap_or(Method::Options);
        let (endpoint, cors) = self.policy_at(head, path, method)?;
        let reply = cors.preflight(head);
        Some(reply.unwrap_or_else(|refused| {
            endpoint.note_fault(RequestFault::Preflight, head, &refused);
            *refused
        }))
    }

    /// Returns the policy of the route for a request with `method`. If the path lacks its final slash, the
    /// path with the slash decides.
    fn policy_at(&self, head: &RequestHead, path: &[u8], method: Method) -> Option<(&Rc<Endpoint>, &Cors)> {
        match self.routes.find(|| head.host(), path, method) {
            Routed::MissingSlash => self.policy_at(head, &[path, b"/"].concat(), method),
            routed => policy(&routed),
        }
    }
}

/// Finds the answer to a challenge of an ACME server (RFC 8555 section 8.3). No route of the configuration
/// can hide this answer.
fn challenge<'s>(routes: &'s Rc<Routes>, head: &RequestHead) -> Option<FoundRoute<'s>> {
    let path = head.path_bytes();
    if !is_challenge(path) {
        return None;
    }
    let Routed::Found(found) = routes.find(|| None, path, head.method()) else { return None };
    Some(FoundRoute { endpoint: found.endpoint().as_ref()?, found, decoded: None, routes })
}

impl FoundRoute<'_> {
    /// Returns the destination of a request that gets this refusal in place of its handler. The place of the
    /// request is needed only for a record, so that most refusals cost less.
    #[cold]
    pub(crate) fn refused(self, head: &RequestHead, reply: Box<Reply>) -> Destination {
        match self.endpoint.records_refusal(&reply) {
            true => self.destination(head).refused(reply),
            false => Destination::Reply(reply),
        }
    }

    /// Returns the route as an owned destination of the request with this head.
    pub(crate) fn destination(self, head: &RequestHead) -> Destination {
        let path = self.decoded.as_deref().map_or_else(|| head.path_bytes(), str::as_bytes);
        let mut place = self.found.place(path);
        place.decoded = self.decoded.map(Into::into);
        Destination::Endpoint { endpoint: self.endpoint.clone(), place, routes: self.routes.clone() }
    }
}

/// Returns the normalised path if it differs from the path as sent.
#[inline]
fn decoded_path(head: &RequestHead) -> Result<Option<String>, RequestError> {
    if head.has_plain_path() {
        return Ok(None);
    }
    match normalise_path(head.path())? {
        Cow::Borrowed(_) => Ok(None),
        Cow::Owned(path) => Ok(Some(path)),
    }
}

#[cold]
fn refused_path(error: &RequestError) -> Box<Reply> {
    tracing::debug!("request refused: {error}");
    Reply::text(error.status(), error.client_text()).into()
}

/// Counts a refused method for the first route of the path. A preflight counts too, because its path has no
/// policy that could allow it.
fn note_refused_method(resource: &Resource<'_, Option<Rc<Endpoint>>>, head: &RequestHead, reply: &Reply) {
    let fault = match head.method() {
        Method::Options if !cors::is_preflight(head) => return,
        Method::Options => RequestFault::Preflight,
        _ => RequestFault::Method,
    };
    if let Some(endpoint) = resource.endpoints().flatten().next() {
        endpoint.note_fault(fault, head, reply);
    }
}

/// Returns the CORS policy of the matched route or path, with its route.
fn policy<'t>(routed: &Routed<'t, Option<Rc<Endpoint>>>) -> Option<(&'t Rc<Endpoint>, &'t Cors)> {
    let with_policy = |endpoint: &'t Rc<Endpoint>| Some((endpoint, endpoint.cors.as_ref()?));
    match routed {
        Routed::Found(found) => found.endpoint().as_ref().and_then(with_policy),
        Routed::MethodNotAllowed(resource) => resource.endpoints().flatten().find_map(with_policy),
        Routed::MissingSlash | Routed::NotFound => None,
    }
}

/// Returns the field lines that every reply of the matched route or path has.
fn lines(routed: &Routed<'_, Option<Rc<Endpoint>>>) -> Option<Bytes> {
    match routed {
        Routed::Found(found) => found.endpoint().as_ref().and_then(|endpoint| endpoint.lines()),
        Routed::MethodNotAllowed(resource) => {
            resource.endpoints().flatten().find_map(|endpoint| endpoint.lines())
        }
        Routed::MissingSlash | Routed::NotFound => None,
    }
}

fn unknown_method() -> Reply {
    Reply::text(StatusCode::NOT_IMPLEMENTED, "method not implemented")
}

fn not_found() -> Reply {
    Reply::text(StatusCode::NOT_FOUND, "no resource has this path")
}

fn allowed(status: StatusCode, methods: Methods) -> Reply {
    let reply = match status {
        StatusCode::NO_CONTENT => Reply::empty(status),
        _ => Reply::text(status, "this path does not allow this method"),
    };
    reply.with("Allow", allowed_methods(methods))
}
