//! The options of a host: its bounds, and the process around its scripts.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::collector::Collector;
use crate::shared::SharedStore;

/// The bounds of a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The processor time of a call, summed over its slices, and of loading a file. In whole milliseconds.
    pub cpu_budget: Duration,
    /// How long a call runs before it gives the worker back. In whole milliseconds.
    pub slice: Duration,
    /// How long a call may take from its first wait on, by the monotonic clock.
    pub wall_budget: Duration,
    /// Server-sent events that pause for so long are told to go on by a comment.
    pub heartbeat: Duration,
    /// By how much the memory of the VM may grow in one call; of a streamed reply between two waits.
    pub memory_bytes_max: usize,
    /// How much a VM may hold in all before it is collected, and replaced if it keeps more than three
    /// quarters of this.
    pub vm_bytes_max: usize,
    /// How garbage is collected.
    pub collector: Collector,
    /// The longest reply, header lines and content together, and the longest JSON.
    pub reply_bytes_max: usize,
    /// The variables of the environment that scripts may read.
    pub env: Vec<String>,
    /// What scripts share with those of every host that has the same.
    pub shared: Arc<SharedStore>,
    /// How many bytes the shared values may take.
    pub shared_bytes_max: usize,
    /// Where they have their time from.
    pub clock: Clock,
    /// The path that the app of the scripts is mounted at, decoded and without a slash at its end; empty at
    /// the root.
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
            env: Vec::new(),
            shared: Arc::default(),
            shared_bytes_max: 16 << 20,
            clock: Clock::System,
            base: String::new(),
        }
    }
}
