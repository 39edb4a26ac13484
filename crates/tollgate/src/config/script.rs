//! `[script]`: bounds on scripts, and what they may reach.

use std::fmt;

use tollgate_server::{HostOptions, ScriptAccess};

use super::access::{Reachable, access};
use super::quoted::quoted;
use super::section::{Section, Written};
use super::units::{GIB, KIB, MIB, MINUTE_MS, show_duration, show_size};

/// A VM holds at least so many calls that grow as far as they may; twice as many unless it is said.
const VM_CALLS_MIN: usize = 2;

/// Bounds on scripts, where the section says nothing as `host` has them, and what they may reach.
pub(super) fn script(
    mut section: Section<'_>,
    mut host: HostOptions,
    reachable: &Reachable<'_>,
) -> (HostOptions, ScriptAccess) {
    host.cpu_budget = section.duration("cpu_budget", 1..=10 * MINUTE_MS, host.cpu_budget);
    host.wall_budget = section.duration("wall_budget", 1..=60 * MINUTE_MS, host.wall_budget);
    host.heartbeat = section.duration("heartbeat", 1_000..=60 * MINUTE_MS, host.heartbeat);
    host.memory_bytes_max = section.size("memory_bytes_max", 64 * KIB..=4 * GIB, host.memory_bytes_max);
    let least = (host.memory_bytes_max as u64 * VM_CALLS_MIN as u64).max(8 * MIB);
    let vm_bytes_max = host.vm_bytes_max.max(host.memory_bytes_max.saturating_mul(VM_CALLS_MIN * 2));
    host.vm_bytes_max = section.size("vm_bytes_max", least..=64 * GIB, vm_bytes_max);
    host.reply_bytes_max = section.size("reply_bytes_max", KIB..=GIB, host.reply_bytes_max);
    host.shared_bytes_max = section.size("shared_bytes_max", 0..=64 * GIB, host.shared_bytes_max);
    if let Some(names) = section.texts("env") {
        host.env = variables(&section, names);
    }
    let access = access(&mut section, reachable);
    section.finish();
    (host, access)
}

/// The names of variables that scripts may read.
fn variables(section: &Section<'_>, names: Vec<Written<String>>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for name in names {
        let text = &name.value;
        if text.is_empty() || text.contains(['=', '\0']) {
            section.fault_at(&name.span, format!("env in [script] has {text:?}, which names no variable"));
        } else if known.contains(text) {
            section.fault_at(&name.span, format!("env in [script] has {text:?} twice"));
        } else {
            known.push(name.value);
        }
    }
    known
}

/// Writes the bounds of the section, and the variables that scripts may read.
pub(super) fn write_script(script: &HostOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "cpu_budget = \"{}\"", show_duration(script.cpu_budget))?;
    writeln!(f, "wall_budget = \"{}\"", show_duration(script.wall_budget))?;
    writeln!(f, "heartbeat = \"{}\"", show_duration(script.heartbeat))?;
    writeln!(f, "memory_bytes_max = \"{}\"", show_size(script.memory_bytes_max as u64))?;
    writeln!(f, "vm_bytes_max = \"{}\"", show_size(script.vm_bytes_max as u64))?;
    writeln!(f, "reply_bytes_max = \"{}\"", show_size(script.reply_bytes_max as u64))?;
    writeln!(f, "shared_bytes_max = \"{}\"", show_size(script.shared_bytes_max as u64))?;
    let names: Vec<_> = script.env.iter().map(|name| quoted(name)).collect();
    writeln!(f, "env = [{}]", names.join(", "))
}
