//! Admits or refuses connections and requests when more arrive than the server can handle.
//!
//! The table lists the admission gates in the order in which a connection and its requests reach them. A
//! request that an admission gate refuses is not recorded. Its reply has the field `Tollgate-Outcome:
//! refused`.
//!
//! | admission gate | refuses | status | key |
//! | --- | --- | --- | --- |
//! | [`accept_pacing`] | a connection that has sent a request, and would be served too late | 503, closed | `queue_age_max`, `backlog` |
//! | [`capacity`], connections | a connection above the maximum of the server | 503, closed | `connections_max` |
//! | [`capacity`], clients | a connection above the maximum of its client | 429 | `connections_per_client_max` |
//! | [`refusal_pause`] | nothing: the next request of a refused client is delayed, while others wait for the worker | none | none |
//! | [`capacity`], memory | a request, while connections hold too much memory | 503 | `in_flight_bytes_max` |
//! | [`admission`] | a share of requests, while the run queue of the worker is too old | 503 | `queue_age_max` |
//! | the log, in `Endpoint::refusal_now` | a request whose records the log or the sink would refuse | 503 | `[log]`, `ack` of the stream |
//! | memory of scripts, in `Endpoint::refusal_now` | a request for a script whose VM is too large | 503 | `vm_bytes_max` |
//! | [`script_queue`] | a request for a slow script, while too many such scripts wait | 503 | `queue_age_max` |
//! | [`throttle`], rates | a request above the rate of its route | 429 | `rate_limit` |
//! | [`throttle`], concurrency | a request above the number of running requests of its route | 503 | `concurrency_max` |
//! | [`throttle`], wrong credentials | a request of a client that has sent too many wrong credentials | 429 | `failure_limit` |
//! | the queue of `auth::PasswordPool` | a request with a password, while too many passwords wait to be checked | 503 | none |
//! | `auth::RemoteKeys` | a request with a token, while no key of tokens is there | 503 | none |
//! | [`capacity`], memory, once more | a request whose handler has not begun | 503 | `in_flight_bytes_max` |
//!
//! The acceptor asks the first two admission gates. The queue of a connection asks the last one. `admit` asks
//! all others when the head of a request is complete. [`refusal_text`] has the texts for clients, and
//! `Refusal` in `observe` the counted reasons. [`unserved`] writes the log lines about connections.

mod accept_pacing;
mod admission;
mod capacity;
mod refusal_pause;
pub(crate) mod refusal_text;
mod script_queue;
mod throttle;
mod unserved;

pub(crate) use accept_pacing::{AcceptPacing, Fate};
pub(crate) use admission::Admission;
pub(crate) use capacity::{Capacity, ClientPermit, ConnectionPermit, HeldMemory, QueuedMemory};
pub(crate) use refusal_pause::RefusalPauses;
pub(crate) use script_queue::{QueuePlace, RouteCost, ScriptQueue, WaitingScript};
pub(crate) use throttle::{Excess, FailedLogins, RequestPermit, Sender, Throttle, ThrottleLines};
pub(crate) use unserved::UnservedConnections;
