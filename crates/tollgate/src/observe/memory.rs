//! The memory of the process: resident bytes, the counted parts of them, and the bounds of these parts.

use super::seen::Seen;

/// The resident bytes and the counted part of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    pub(super) resident_bytes: u64,
    pub(super) counted_bytes: u64,
}

impl Sum {
    pub(super) fn of(seen: &Seen) -> Self {
        let kinds = kinds(seen);
        let counted = kinds.iter().filter(|(kind, _)| ["in_flight", "scripts", "log_queue"].contains(kind));
        let counted_bytes = counted.map(|(_, bytes)| bytes).sum();
        Self { resident_bytes: seen.process.resident_bytes, counted_bytes }
    }
}

/// Returns bytes by kind. A kind that ends in `_max` is the bound of the kind without this ending. If a part
/// of the server does not run, its kinds are missing.
pub(super) fn kinds(seen: &Seen) -> Vec<(&'static str, u64)> {
    let mut kinds = vec![("resident", seen.process.resident_bytes)];
    if let Some(server) = &seen.server {
        let script_bytes = server.workers.iter().map(|worker| worker.script_bytes).sum();
        kinds.extend([
            ("in_flight", server.in_flight_bytes),
            ("in_flight_max", server.in_flight_bytes_max),
            ("scripts", script_bytes),
        ]);
    }
    if let Some(log) = &seen.log {
        kinds.extend([("log_queue", log.queued_bytes), ("log_queue_max", log.queue_bytes_max)]);
    }
    kinds
}
