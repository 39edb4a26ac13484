//! The engine over real sockets: bytes in, bytes out.

// clippy knows test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arriving;
mod asking;
mod backend;
mod bodies;
mod closing;
mod codings;
mod collect;
mod connections;
mod cors;
mod deadlines;
mod emitted;
mod events;
mod faulty_backends;
mod fetching;
mod fields;
mod files;
mod framing;
mod heads;
mod hoards;
mod intermediary;
mod lane;
mod limits;
mod listening;
mod loaded;
mod log_queue;
mod lost_backends;
mod lost_log;
mod passing;
mod peer;
mod pipelining;
mod proxied_content;
mod proxied_origin;
mod proxied_uploads;
mod proxied_verdicts;
mod proxy_faults;
mod proxying;
mod records;
mod replies;
mod request_line;
mod routing;
mod scripted;
mod secure_backends;
mod sent_files;
mod shares;
mod site;
mod spool;
mod stalling_disk;
mod streaming;
mod streams;
mod terminator;
mod throttles;
mod uploads;
mod waiting;
