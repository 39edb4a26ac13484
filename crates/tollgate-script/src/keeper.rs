//! The care for the VMs of a thread between calls: a VM that holds too much is reported, and a VM out of use
//! is closed in stretches. Closing a VM in one call frees each of its objects, some 100 ns apiece, while all
//! other tasks wait.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use mlua::Lua;
use tokio::sync::Notify;

/// What the hosts of a thread tell whoever looks after them.
#[derive(Default)]
pub struct Keeper {
    pressed: Notify,
    closing: RefCell<Vec<Lua>>,
}

impl Keeper {
    /// Returns when there is something to do: a VM that holds too much, or one to be closed.
    ///
    /// # Cancel safety
    /// What was told to nobody is told to the next who asks.
    pub async fn pressed(&self) {
        self.pressed.notified().await;
    }

    /// Closes the VMs that are out of use; others have their turns meanwhile.
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

    /// Takes over a VM whose scripts are gone.
    pub(crate) fn take_over(&self, lua: Lua) {
        self.closing.borrow_mut().push(lua);
        self.press();
    }
}

/// Frees what a VM does not keep, or so much that it holds no more than `enough`, in stretches between which
/// others have their turns. Returns what it took of the thread.
pub(crate) async fn collect(lua: &Lua, enough: usize) -> Duration {
    let took = finish_cycle(lua).await;
    if lua.used_memory() <= enough {
        return took;
    }
    // What was marked before it became garbage goes with the cycle after the one that was under way.
    took + finish_cycle(lua).await
}

async fn finish_cycle(lua: &Lua) -> Duration {
    let mut took = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let mut is_over = false;
        while !is_over && begun.elapsed() < STRETCH {
            // The collector allocates nothing.
            is_over = lua.gc_step().unwrap_or(true);
        }
        took += begun.elapsed();
        if is_over {
            return took;
        }
        tokio::task::yield_now().await;
    }
}

/// How long others wait for a stretch of collecting.
const STRETCH: Duration = Duration::from_millis(1);
