//! The options of a `Host`: its limits, and the environment of its scripts.

use std::sync::Arc;
use std::time::Duration;

use tollgate_xml::Doctype;

use crate::clock::Clock;
use crate::collector::Collector;
use crate::shared::SharedStore;

/// Options of a `Host`.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Maximum processor time of a call over all slices, and of loading a file. The value has whole
    /// milliseconds.
    pub cpu_budget: Duration,
    /// Time that a call runs before other calls have their turn. The value has whole milliseconds.
    pub slice: Duration,
    /// Maximum time of a call from its first wait on, by the monotonic clock.
    pub wall_budget: Duration,
    /// Pause of server-sent events after which a comment is sent to keep the connection alive.
    pub heartbeat: Duration,
    /// Maximum growth of the VM's memory in one call, or between two waits of a streamed reply, in bytes.
    pub memory_bytes_max: usize,
    /// Maximum memory of a VM, in bytes. A VM that exceeds this limit is collected. If the VM then holds more
    /// than three quarters of the limit, it is replaced.
    pub vm_bytes_max: usize,
    /// Settings of the garbage collector.
    pub collector: Collector,
    /// Maximum size of a reply in bytes, with header lines and content. JSON text has the same limit.
    pub reply_bytes_max: usize,
    /// Maximum number of records that a call emits.
    pub emit_records_max: usize,
    /// What readers of XML do with a document type declaration.
    pub doctype: Doctype,
    /// Environment variables that scripts may read.
    pub env: Vec<String>,
    /// Store of `tollgate.shared`. Hosts with the same store share its values.
    pub shared: Arc<SharedStore>,
    /// Maximum size of the shared values in bytes.
    pub shared_bytes_max: usize,
    /// Source of time for scripts.
    pub clock: Clock,
    /// Path at which the app of the scripts is mounted, decoded and without a final slash. Empty at the root.
    pub base: String,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            cpu_budget: Duration::from_millis(50),
            slice: Duration::from_millis(2),
            wall_budget: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            memory_bytes_max: 16 << 20,
            vm_bytes_max: 256 << 20,
            collector: Collector::default(),
            reply_bytes_max: 16 << 20,
            emit_records_max: 10_000,
            doctype: Doctype::Refuse,
            env: Vec::new(),
            shared: Arc::default(),
            shared_bytes_max: 16 << 20,
            clock: Clock::System,
            base: String::new(),
        }
    }
}
