//! Cares for the VMs of a thread between calls. A VM that holds more than `vm_bytes_max` notifies the keeper,
//! and the keeper closes unused VMs in stretches.
//!
//! Closing a VM in one call would free all of its objects, at about 100 ns each, while all other tasks wait.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use mlua::Lua;
use tokio::sync::Notify;

/// Notifications of the `Host`s of a thread, for the task that cares for their VMs.
#[derive(Default)]
pub struct Keeper {
    pressed: Notify,
    closing: RefCell<Vec<Lua>>,
}

impl Keeper {
    /// Waits until there is work: a VM that holds more than `vm_bytes_max`, or an unused VM.
    ///
    /// # Cancel safety
    /// A notification that arrives after a drop of the future is returned to the next call.
    pub async fn pressed(&self) {
        self.pressed.notified().await;
    }

    /// Closes the unused VMs. Other tasks run between the stretches.
    pub async fn close(&self) {
        while let Some(lua) = self.next_to_close() {
            collect(&lua, 0).await;
            drop(lua);
            tokio::task::yield_now().await;
        }
    }

    fn next_to_close(&self) -> Option<Lua> {
        self.closing.borrow_mut().pop()
    }

    pub(crate) fn press(&self) {
        self.pressed.notify_one();
    }

    /// Takes ownership of a VM whose scripts are gone.
    pub(crate) fn take_over(&self, lua: Lua) {
        self.closing.borrow_mut().push(lua);
        self.press();
    }
}

/// Frees garbage of a VM in stretches, until the VM holds at most `enough` or has no garbage.
///
/// Other tasks run between the stretches. Returns the time that the collection took on the thread.
pub(crate) async fn collect(lua: &Lua, enough: usize) -> Duration {
    let took = finish_cycle(lua).await;
    if lua.used_memory() <= enough {
        return took;
    }
    // The running cycle misses objects that became garbage after it marked them. The next cycle frees these
    // objects.
    took + finish_cycle(lua).await
}

async fn finish_cycle(lua: &Lua) -> Duration {
    let mut took = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let mut is_over = false;
        while !is_over && begun.elapsed() < STRETCH {
            // The collector allocates nothing, so no error is expected. An error counts as the end of a
            // cycle.
            is_over = lua.gc_step().unwrap_or(true);
        }
        took += begun.elapsed();
        if is_over {
            return took;
        }
        tokio::task::yield_now().await;
    }
}

/// Maximum time that other tasks wait for one stretch of collection.
const STRETCH: Duration = Duration::from_millis(1);
