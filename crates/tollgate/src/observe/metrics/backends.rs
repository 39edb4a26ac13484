//! The metrics of each backend: requests, breaker, addresses and connections.

use tollgate_meter::Exposition;
use tollgate_meter::Kind::{Counter, Gauge};
use tollgate_server::{AddressState, BackendSnapshot, BreakerState, ServerStatus};

use super::number::Number;

pub(super) fn expose(out: &mut Exposition, server: Option<&ServerStatus>) {
    let backends = || server.into_iter().flat_map(|server| &server.backends);
    let of_backend: [Number<BackendSnapshot>; 9] = [
        ("tollgate_backend_requests_total", Counter, "Requests for the backend.", |backend| backend.requests),
        (
            "tollgate_backend_failures_total",
            Counter,
            "Requests without a complete reply, except those that their clients ended.",
            |backend| backend.failures,
        ),
        (
            "tollgate_backend_refusals_total",
            Counter,
            "Failed requests that were sent to no address: no place, no address, or all breakers open.",
            |backend| backend.refusals,
        ),
        (
            "tollgate_backend_retries_total",
            Counter,
            "Failed requests that were sent to another address.",
            |backend| backend.retries,
        ),
        (
            "tollgate_backend_resends_total",
            Counter,
            "Requests that were sent again on a new connection, because a kept connection was closed.",
            |backend| backend.resends,
        ),
        (
            "tollgate_backend_addresses",
            Gauge,
            "Addresses of the backend. 0 while none of its names is known.",
            |backend| backend.addresses.len() as u64,
        ),
        (
            "tollgate_backend_connects_total",
            Counter,
            "Connections that were made to the backend.",
            |backend| backend.connects,
        ),
        (
            "tollgate_backend_in_flight",
            Gauge,
            "Requests that wait for their reply from the backend.",
            |backend| backend.in_flight as u64,
        ),
        ("tollgate_backend_queued", Gauge, "Requests that wait for a place.", |backend| {
            backend.queued as u64
        }),
    ];
    for (name, kind, text, value) in of_backend {
        let mut family = out.family(name, kind, text);
        for backend in backends() {
            family.count(&[("backend", &backend.name)], value(backend));
        }
    }
    let text = "1 for the best state among the breakers of the backend's addresses.";
    let mut family = out.family("tollgate_backend_breaker", Gauge, text);
    for backend in backends() {
        for state in BreakerState::ALL {
            let labels = [("backend", backend.name.as_str()), ("state", state.name())];
            family.count(&labels, (backend.breaker == state).into());
        }
    }
    let text = "Addresses of the backend in this state.";
    let mut family = out.family("tollgate_backend_address_states", Gauge, text);
    for backend in backends() {
        for state in AddressState::ALL {
            let in_state = backend.addresses.iter().filter(|address| address.state() == state).count();
            family.count(&[("backend", &backend.name), ("state", state.name())], in_state as u64);
        }
    }
    let text = "TLS handshakes with the backend that failed, by reason.";
    let mut family = out.family("tollgate_backend_handshake_failures_total", Counter, text);
    for backend in backends() {
        for (reason, failures) in &backend.handshake_failures {
            family.count(&[("backend", &backend.name), ("reason", reason)], *failures);
        }
    }
    let text = "Idle connections in the pool, kept for the next request.";
    let mut family = out.family("tollgate_backend_idle_connections", Gauge, text);
    for backend in backends() {
        let idle = backend.addresses.iter().map(|address| address.idle as u64).sum();
        family.count(&[("backend", &backend.name)], idle);
    }
}
