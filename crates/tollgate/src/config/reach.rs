//! Finds bounds that can never be reached, because another bound is lower. Such a bound is a fault, because
//! the server would refuse earlier than the operator expects.

use tollgate_server::{CapacityLimits, ConnectionLimits, SpoolOptions};

use super::section::Section;
use super::units::show_size;

/// The highest bounds of a request that the server's bounds allow.
#[derive(Clone, Copy)]
pub(super) struct ReachableBounds {
    /// Bytes of the largest body that fits the spool or memory.
    body_bytes: u64,
}

impl ReachableBounds {
    /// Derives the bounds from the options of the server. A body is written to the spool if it is longer than
    /// `body_memory_max`.
    pub(super) fn new(connection: &ConnectionLimits, spool: &SpoolOptions) -> Self {
        Self { body_bytes: spool.bytes_max.max(connection.body_memory_max as u64) }
    }

    /// Checks the `body_bytes_max` of a section.
    pub(super) fn check_body(&self, section: &Section<'_>, bytes: u64) {
        if bytes > self.body_bytes {
            let (found, limit) = (show_size(bytes), show_size(self.body_bytes));
            let bounds = "the larger of spool_bytes_max and body_memory_max";
            section.fault_of(
                "body_bytes_max",
                format!("body_bytes_max is {found}, limit is {limit}, {bounds}: raise one of them"),
            );
        }
    }
}

/// Checks the memory of one body against the memory of all bodies.
pub(super) fn check_memory(section: &Section<'_>, connection: &ConnectionLimits, capacity: &CapacityLimits) {
    let (memory, peers) = (connection.body_memory_max as u64, capacity.peer_bytes_max());
    if memory > peers {
        let (memory, peers) = (show_size(memory), show_size(peers));
        let text = format!(
            "body_memory_max is {memory}, limit is {peers}, three quarters of in_flight_bytes_max: raise that"
        );
        section.fault_of("body_memory_max", text);
    }
}
