//! The findings of workers, memory and connections.

use std::time::Duration;

use tollgate_server::ServerStatus;

use super::code::Code;
use super::finding::Health;
use crate::observe::process::Usage;
use crate::print::counted;
use crate::progress::size;

/// The warning begins when less than 1/10 of the descriptors is free.
const DESCRIPTORS_SHARE: u64 = 10;
/// Free descriptors that the server needs to be ready. With fewer of them, a new connection is closed at
/// once, or a requested file cannot be opened.
const DESCRIPTORS_LEFT_MIN: u64 = 4;
/// Time without a refusal for lack of descriptors or memory, after which the finding ends.
const REFUSALS_CALM: Duration = Duration::from_secs(5);

/// Finds the faults of workers, memory, connections and descriptors.
pub(super) fn look_at_server(health: &mut Health, server: &ServerStatus, stall_max: Duration) {
    look_at_workers(health, server, stall_max);
    look_at_memory(health, server);
    let (connections, max) = (server.connections, server.connections_max);
    if connections >= max {
        health.add(Code::ConnectionsFull, format!("{connections} connections are open, limit {max}"));
    }
}

fn look_at_workers(health: &mut Health, server: &ServerStatus, stall_max: Duration) {
    for (index, worker) in server.workers.iter().enumerate() {
        if worker.silence > stall_max {
            let (silent, limit) = (worker.silence.as_secs(), stall_max.as_secs());
            let text = format!(
                "worker {index} has made no pass over its connections for {silent} s, limit {limit} s"
            );
            health.add(Code::WorkerStalled, text);
        }
    }
    if !server.workers.is_empty() && server.workers.iter().all(|worker| worker.refused_share >= 1.0) {
        health.add(
            Code::Behind,
            "requests wait longer than queue_age_max in every worker, so all requests are refused",
        );
    }
    let refusing = server.workers.iter().filter(|worker| worker.refuses_scripts).count();
    if refusing > 0 {
        let of = counted(server.workers.len() as u64, "worker");
        let text = format!(
            "{refusing} of {of} refuse requests for long scripts, because more arrive than they can run"
        );
        health.add(Code::ScriptsBehind, text);
    }
}

fn look_at_memory(health: &mut Health, server: &ServerStatus) {
    let (held, max) = (server.in_flight_bytes, server.in_flight_bytes_max);
    if held > max {
        health.add(
            Code::MemoryFull,
            format!("{} are held for requests and replies, limit {}", size(held), size(max)),
        );
    } else if server.starved_ago.is_some_and(|ago| ago < REFUSALS_CALM) {
        let text = format!(
            "{} of {} are held for requests and replies: requests that get no memory are refused",
            size(held),
            size(max)
        );
        health.add(Code::MemoryShort, text);
    }
}

/// Finds a lack of descriptors. A process that only loads has no server.
pub(super) fn look_at_descriptors(health: &mut Health, server: Option<&ServerStatus>, usage: Usage) {
    let (open, max) = (usage.descriptors, usage.descriptors_max);
    let paused_ago = server.and_then(|server| server.accept_paused_ago);
    let is_pausing = paused_ago.is_some_and(|ago| ago < REFUSALS_CALM);
    if is_pausing || (max > 0 && open + DESCRIPTORS_LEFT_MIN > max) {
        let text = format!("{open} descriptors are open, limit {max}: new connections wait");
        health.add(Code::DescriptorsFull, text);
    } else if max > 0 && open > max - max / DESCRIPTORS_SHARE {
        health.add(Code::DescriptorsShort, format!("{open} descriptors are open, limit {max}"));
    }
}
