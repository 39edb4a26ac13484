//! `[script]`: the bounds on scripts, and the folders and databases that they may reach.

use std::fmt;

use tollgate_server::{HostOptions, ScriptAccess};

use super::access::{AccessKeys, Reachable, access};
use super::key::{keys, set_defaults, write};
use super::quoted::quoted_list;
use super::section::{Section, Written};
use super::units::{GIB, KIB, MIB, MINUTE_MS, SECOND_MS};

/// A VM has memory for at least this number of calls that each grow it by `memory_bytes_max`. The default is
/// twice this number.
const VM_CALLS_MIN: usize = 2;
const VM_BYTES_MAX_MAX: u64 = 64 * GIB;

keys! {
    pub(super) KEYS of HostOptions;
    /// Processor time of one call, or of loading a script. More: 500.
    cpu_budget = duration(50, 1..=10 * MINUTE_MS) => cpu_budget;
    /// How long one call may take from its first wait to its return. Longer: 500.
    wall_budget = duration(30 * SECOND_MS, 1..=60 * MINUTE_MS) => wall_budget;
    /// After a pause of this length in server-sent events, the server sends a comment.
    heartbeat = duration(15 * SECOND_MS, SECOND_MS..=60 * MINUTE_MS) => heartbeat;
    /// By how much one call may grow the memory of its Luau VM. More: 500.
    memory_bytes_max = size(16 * MIB, 64 * KIB..=4 * GIB) => memory_bytes_max;
    /// Bytes that the Luau VM of one worker may hold. Each app has its own VM.
    vm_bytes_max [VM_BYTES_MAX] = size(256 * MIB, 8 * MIB..=VM_BYTES_MAX_MAX)
        .or("four times `memory_bytes_max` if that is more").by_hand() => vm_bytes_max;
    /// Bytes of a script's longest reply (head and content), longest JSON text, and longest event.
    reply_bytes_max = size(16 * MIB, KIB..=GIB) => reply_bytes_max;
    /// Records that one call may add by `tollgate.emit`. More: an error in the script.
    emit_records_max = integer(10_000, 1..=524_288) => emit_records_max;
    /// Bytes that `tollgate.shared` may hold, for all workers together. More: an error in the script.
    shared_bytes_max = size(16 * MIB, 0..=64 * GIB) => shared_bytes_max;
    /// The folder of the files that replies of scripts may send. A route may name another folder.
    file_dir [FILE_DIR] = other("none", "a folder separate from the files that the server writes and runs");
    /// The folder that scripts save parts of forms in. A route may name another folder.
    upload_dir [UPLOAD_DIR] = other("none", "a folder separate from the files that the server writes and runs");
    /// The databases that scripts may read. A route may list others.
    databases [DATABASES] = other("`[]`", "names of `[database.NAME]`");
    /// The environment variables that `tollgate.env` may read.
    env [ENV] = other("`[]`", "names");
}

/// The keys for the access of scripts.
const ACCESS: AccessKeys = AccessKeys { files: &FILE_DIR, uploads: &UPLOAD_DIR, databases: &DATABASES };

/// Returns the bounds of a configuration without this section.
pub(super) fn unwritten() -> HostOptions {
    let mut host = HostOptions::default();
    set_defaults(KEYS, &mut host);
    host
}

/// Reads the section: the bounds on scripts, and the access of scripts. The defaults of the bounds are in
/// `host`.
pub(super) fn script(
    mut section: Section<'_>,
    host: HostOptions,
    reachable: &Reachable<'_>,
) -> (HostOptions, ScriptAccess) {
    let host = script_bounds(&mut section, host);
    let access = reached(&mut section, reachable);
    section.finish();
    (host, access)
}

/// Reads the bounds on scripts, and the variables that scripts may read. The defaults of the bounds are in
/// `host`.
pub(super) fn script_bounds(section: &mut Section<'_>, mut host: HostOptions) -> HostOptions {
    section.overlay(KEYS, &mut host);
    let least = (host.memory_bytes_max as u64 * VM_CALLS_MIN as u64).max(8 * MIB);
    let vm_bytes_max = host.vm_bytes_max.max(host.memory_bytes_max.saturating_mul(VM_CALLS_MIN * 2));
    let written = section.number_within(&VM_BYTES_MAX, least..=VM_BYTES_MAX_MAX);
    host.vm_bytes_max = written.and_then(|bytes| bytes.try_into().ok()).unwrap_or(vm_bytes_max);
    if let Some(names) = section.texts(ENV.name) {
        host.env = variables(section, names);
    }
    host
}

/// Reads the folders and databases that scripts may reach.
pub(super) fn reached(section: &mut Section<'_>, reachable: &Reachable<'_>) -> ScriptAccess {
    access(section, &ACCESS, reachable)
}

/// Returns the names of variables that scripts may read.
fn variables(section: &Section<'_>, names: Vec<Written<String>>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for name in names {
        let text = &name.value;
        if text.is_empty() || text.contains(['=', '\0']) {
            section.fault_at(
                &name.span,
                format!("env in [script] has {text:?}, allowed is the name of a variable"),
            );
        } else if known.contains(text) {
            section.fault_at(&name.span, format!("env in [script] has {text:?} twice"));
        } else {
            known.push(name.value);
        }
    }
    known
}

/// Writes the bounds of the section, and the variables that scripts may read. Each route prints the access of
/// its scripts.
pub(super) fn write_script(script: &HostOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write(KEYS, script, &[(ENV.name, Some(quoted_list(&script.env)))], f)
}
