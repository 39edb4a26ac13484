//! The budget of descriptors: the number of connections that fit the descriptor limit of the process.
//!
//! The budget is made once, when a configuration takes effect. The budget counts the maximum of descriptors
//! that log, sinks, databases, admin listener, workers and open files of routes hold. It also counts
//! descriptors that a request opens: a connection to a backend, and a spooled body. Connections get the
//! remaining descriptors, so they never use descriptors that the other parts need. Only the log keeps
//! descriptors in reserve.

use std::cmp::{max, min};

use rustix::process::{Resource, getrlimit, setrlimit};
use tollgate_server::{BackendOptions, CapacityLimits, ServerOptions};

use crate::config::{AdminListen, Config};

/// Number of descriptors of the process: standard streams, signals, the control socket and its 56 clients,
/// the loader's segments, and files that scripts save.
const OF_THE_PROCESS: u64 = 96;
/// Number of descriptors of the log: the open segment, the folder, the lock, and the reserve.
const OF_THE_LOG: u64 = 16;
/// Number of descriptors of the admin listener: its socket, its 32 clients, and one more client that replaces
/// the oldest.
const OF_THE_ADMIN_LISTENER: u64 = 34;
/// Number of descriptors of one database: the connections, and the files of SQLite.
const OF_A_DATABASE: u64 = 8;
/// Number of descriptors of one worker: its runtime, and a file that it opens for a moment.
const OF_A_WORKER: u64 = 8;
/// Number of descriptors of one listening socket. Its worker has one, and the server keeps a copy. An upgrade
/// needs one more copy while it hands the socket over.
const OF_A_LISTENER: u64 = 3;
/// Minimum number of files that a worker may keep open.
const FILES_OPEN_MIN: u64 = 16;

/// Raises the soft limit of the process to its hard limit.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of descriptors cannot be raised");
    }
}

/// Returns the hard limit of descriptors of this process.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Fits a configuration into the limit. If the default `connections_max` does not fit, it is lowered, and
/// `connections_note` of the configuration says so. A value that the operator wrote is not changed.
///
/// # Errors
/// The written `connections_max` does not fit, or there is no descriptor for a connection. The error is the
/// text for the operator.
pub(crate) fn fit(config: &mut Config, limit: u64) -> Result<(), String> {
    let budget = Budget::of(config, limit);
    let (wanted, possible) = (config.server.capacity.connections_max, budget.connections_max());
    if possible == 0 {
        let reserved = budget.reserved;
        return Err(format!(
            "the limit of descriptors is {limit}, the server needs {reserved} before its first connection: \
             raise LimitNOFILE (ulimit -n)"
        ));
    }
    if wanted > possible {
        let needed = budget.needed(wanted as u64);
        if config.is_connections_max_written {
            return Err(format!(
                "connections_max is {wanted}, which needs {needed} descriptors, limit of the process \
                 {limit}: raise LimitNOFILE (ulimit -n), or lower connections_max to {possible}"
            ));
        }
        config.connections_note = Some(format!(
            "connections_max is {possible} instead of its default {wanted}: the default needs {needed} \
             descriptors, limit of the process {limit}. Raise LimitNOFILE (ulimit -n), or set connections_max"
        ));
        config.server.capacity.connections_max = possible;
    }
    let connections = config.server.capacity.connections_max as u64;
    config.server.capacity.files_open_max = budget.files_open_max(connections);
    Ok(())
}

/// The descriptors of each part within the limit.
struct Budget {
    limit: u64,
    workers: u64,
    /// Number of descriptors that do not depend on the number of connections.
    reserved: u64,
    /// Maximum number of requests to backends at the same time, and of spooled bodies at the same time. A
    /// connection has at most one of each.
    requests_max: [u64; 2],
}

impl Budget {
    fn of(config: &Config, limit: u64) -> Self {
        let server = &config.server;
        let workers = server.workers as u64;
        let databases = (config.sinks.len() + config.database_count()) as u64;
        let admin = match config.admin.listen {
            AdminListen::Nowhere => 0,
            _ => OF_THE_ADMIN_LISTENER,
        };
        let of_a_worker = OF_A_WORKER + FILES_OPEN_MIN + OF_A_LISTENER * server.listen.len() as u64;
        let idle = server.backends.iter().map(|backend| idle_connections(backend, workers)).sum::<u64>();
        let reserved =
            OF_THE_PROCESS + OF_THE_LOG + admin + databases * OF_A_DATABASE + workers * of_a_worker + idle;
        Self { limit, workers, reserved, requests_max: [to_backends(server), spooled_bodies(server)] }
    }

    /// Returns the descriptors that all parts need for this number of connections.
    fn needed(&self, connections: u64) -> u64 {
        let of_requests = self.requests_max.map(|requests| min(requests, connections)).iter().sum::<u64>();
        self.reserved + connections + of_requests
    }

    /// Returns the greatest number of connections whose need fits the limit.
    fn connections_max(&self) -> usize {
        let left = self.limit.saturating_sub(self.reserved);
        let [one, other] = self.requests_max;
        let (few, many) = (min(one, other), max(one, other));
        let connections = if left / 3 < few {
            left / 3
        } else if (left - few) / 2 < many {
            (left - few) / 2
        } else {
            left - few - many
        };
        usize::try_from(connections).unwrap_or(usize::MAX)
    }

    /// Returns the number of files that each worker may keep open at this number of connections.
    fn files_open_max(&self, connections: u64) -> usize {
        let left = self.limit.saturating_sub(self.needed(connections)) / self.workers.max(1);
        let files_open_max = FILES_OPEN_MIN.saturating_add(left);
        usize::try_from(files_open_max).unwrap_or(usize::MAX).min(CapacityLimits::FILES_OPEN_MAX)
    }
}

fn to_backends(server: &ServerOptions) -> u64 {
    server.backends.iter().map(|backend| backend.concurrency_max as u64).sum()
}

/// Returns the connections to a backend that are kept while no request uses them.
fn idle_connections(backend: &BackendOptions, workers: u64) -> u64 {
    let places = workers * backend.addresses.len() as u64;
    min(places * backend.pool.idle_max as u64, backend.concurrency_max as u64)
}

/// Returns the maximum number of bodies in the spool. Each spooled body is longer than `body_memory_max`.
fn spooled_bodies(server: &ServerOptions) -> u64 {
    server.spool.bytes_max / (server.connection.body_memory_max as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: u64, reserved: u64, requests_max: [u64; 2]) -> Budget {
        Budget { limit, workers: 2, reserved, requests_max }
    }

    #[test]
    fn as_many_connections_fit_as_the_limit_leaves_and_not_one_more() {
        for limit in [100, 101, 120, 1024, 65_536] {
            for requests_max in [[0, 0], [0, 7], [7, 0], [5, 9], [9, 5], [500, 20], [100_000, 100_000]] {
                let budget = budget(limit, 100, requests_max);
                let connections = budget.connections_max() as u64;
                assert!(budget.needed(connections) <= limit, "{limit} {requests_max:?}: {connections}");
                assert!(budget.needed(connections + 1) > limit, "{limit} {requests_max:?}: {connections}");
            }
        }
        assert_eq!(budget(99, 100, [0, 0]).connections_max(), 0);
    }

    #[test]
    fn what_connections_leave_is_shared_by_the_files_of_workers() {
        assert_eq!(budget(200, 100, [0, 0]).files_open_max(100), 16);
        assert_eq!(budget(300, 100, [0, 0]).files_open_max(100), 66);
        assert_eq!(budget(u64::MAX, 100, [0, 0]).files_open_max(100), CapacityLimits::FILES_OPEN_MAX);
    }
}
