//! What is allowed in a configuration, and does something that its author may not expect.

use std::path::PathBuf;

use tollgate_server::{BackendOptions, HandlerSpec, RouteSpec, ServerOptions};

use crate::config::show_size;

/// Returns a line for each.
pub(super) fn notes(server: &ServerOptions) -> Vec<String> {
    let backends = server.backends.iter().enumerate();
    let places = backends.filter_map(|(index, backend)| note_of_one_place(server, index, backend));
    places.chain(server.routes.iter().flat_map(notes_of_pages)).collect()
}

/// A page may come with the next release of the folder. While it is not there, a text of ours is.
fn notes_of_pages(route: &RouteSpec) -> Vec<String> {
    let HandlerSpec::Files(files) = &route.handler else { return Vec::new() };
    let pages = files.error_pages.iter().map(|(status, page)| (status, files.root.join(page)));
    let missing = pages.filter(|(_, page)| !page.is_file());
    let note = |(status, page): (&u16, PathBuf)| {
        format!("note: the page for {status} of route {:?} is not there: {}", route.path, page.display())
    };
    missing.map(note).collect()
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
