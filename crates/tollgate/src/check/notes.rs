//! What is allowed in a configuration, and does something that its author may not expect.

use tollgate_server::{BackendOptions, HandlerSpec, RouteSpec, ServerOptions};

use crate::config::show_size;

/// Returns a line for each.
pub(super) fn notes(server: &ServerOptions) -> Vec<String> {
    let backends = server.backends.iter().enumerate();
    backends.filter_map(|(index, backend)| note_of_one_place(server, index, backend)).collect()
}

/// Bodies that stream take half of the places of a backend, and half of one place is none.
fn note_of_one_place(server: &ServerOptions, index: usize, backend: &BackendOptions) -> Option<String> {
    let memory_max = server.connection.body_memory_max as u64;
    let is_meant = |route: &&RouteSpec| route.body_bytes_max > memory_max && would_stream(route, index);
    let routes: Vec<_> =
        server.routes.iter().filter(is_meant).map(|route| format!("{:?}", route.path)).collect();
    if backend.concurrency_max > 1 || routes.is_empty() {
        return None;
    }
    Some(format!(
        "note: concurrency_max in [backend.{}] is 1: a body longer than body_memory_max ({}) does not stream to it, but comes whole \
         first, through the spool; from 2 on, half of it is for bodies that stream. Routes: {}",
        backend.name,
        show_size(memory_max),
        routes.join(", ")
    ))
}

/// Whether long bodies of the route go on to that backend while they come, as long as there are places for them.
fn would_stream(route: &RouteSpec, backend: usize) -> bool {
    let needs_whole = route.stream.is_some() || !route.before.is_empty() || !route.after.is_empty();
    let has_bodies = route.methods.is_none_or(|methods| methods.iter().any(|method| !method.is_safe()));
    match &route.handler {
        HandlerSpec::Proxy(proxy) => proxy.backend == backend && !needs_whole && has_bodies,
        HandlerSpec::Script { .. }
        | HandlerSpec::Collect
        | HandlerSpec::Files(_)
        | HandlerSpec::Reply { .. } => false,
    }
}
