//! Renewal of a VM that holds too much memory. The garbage of the VM is collected. If the VM still holds too
//! much, a new VM replaces it.
//!
//! The memory limit of a call ends a call that grows. Memory that calls leave in the VM belongs to no call.
//! Examples are a table that lives as long as its file, and coroutines that are never resumed. A call
//! therefore notifies the [`Keeper`](crate::Keeper) if the VM holds more than `vm_bytes_max` at the end of
//! the call. A call that reached its own memory limit also notifies the keeper. The server then relieves the
//! VM:
//!
//! | the VM | result |
//! | --- | --- |
//! | keeps at most three quarters of `vm_bytes_max` after a collection | continues: the rest was garbage |
//! | keeps more | a new VM from the files as read before gets the new calls |
//! | holds one and a half times `vm_bytes_max` before that | new calls are refused ([`Host::is_full`]) |
//!
//! Calls stay in the VM in which they began. The old VM is freed at the latest one wall budget after its
//! replacement, because even a streamed reply must end by then. `tollgate.shared` is outside the VMs. Values
//! in locals of files are lost with the old VM.
//!
//! Invariants:
//! - At most two VMs of a `Host` hold memory. A VM is replaced only after its predecessor is gone.
//! - A script that fills VM after VM costs at most a twentieth of the thread's time, and at most four VMs a
//!   second.
//! - Collecting, loading and closing run in short stretches. Other tasks run between the stretches.

use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use crate::error::{HostError, LoadError};
use crate::host::Host;
use crate::keeper::collect;
use crate::loaded_script::ScriptSlot;
use crate::require::Modules;
use crate::script::Script;
use crate::vm::{Fill, Vm};

/// Result of relieving a VM.
#[derive(Debug)]
pub enum Relief {
    /// The VM holds no more than three quarters of `vm_bytes_max` now. The excess was garbage.
    Within,
    /// Another VM replaced the VM.
    Replaced {
        /// Memory that the old VM kept, in bytes.
        bytes: usize,
        /// Limit of the memory of a VM, in bytes.
        limit_bytes: usize,
        /// Memory of the new VM, in bytes.
        fresh_bytes: usize,
    },
    /// The VM holds too much memory, and can be replaced after this time.
    Waits(Duration),
    /// The VM holds too much memory, and no new VM could be created. A later attempt may succeed.
    Failed(RenewalError),
}

/// Reason why no new VM could be created.
#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    /// The setup of the VM failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A script failed to load, although it was loaded before.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Host {
    /// Returns whether new calls should be refused. In this case the VM holds more than one and a half times
    /// `vm_bytes_max`, and was not relieved yet.
    pub fn is_full(&self) -> bool {
        let vm = self.0.vm.borrow();
        vm.fill.get() == Fill::Over && vm.lua.used_memory() > vm.parts.options.vm_bytes_max / 2 * 3
    }

    /// Collects the garbage of the VM if the VM holds too much memory, and replaces the VM if that does not
    /// suffice. Calls continue during this work.
    ///
    /// # Cancel safety
    /// After a drop of the future, the unfinished new VM is dropped, and the old VM continues.
    pub async fn relieve(&self) -> Relief {
        let old = self.vm();
        if old.fill.get() != Fill::Over {
            return Relief::Within;
        }
        if let Some(wait) = self.0.pace.wait() {
            return Relief::Waits(wait);
        }
        let kept_bytes_max = old.parts.options.vm_bytes_max / 4 * 3;
        let mut took = collect(&old.lua, kept_bytes_max).await;
        let bytes = old.lua.used_memory();
        if bytes <= kept_bytes_max {
            old.fill.set(Fill::Within);
            return Relief::Within;
        }
        let renewed = self.renewed(&old, &mut took).await;
        self.0.pace.note(took);
        match renewed {
            Err(error) => Relief::Failed(error),
            Ok((fresh, scripts)) => {
                let fresh_bytes = fresh.lua.used_memory();
                self.replace(&old, fresh, scripts);
                Relief::Replaced { bytes, limit_bytes: old.parts.options.vm_bytes_max, fresh_bytes }
            }
        }
    }

    /// Creates a new VM with all scripts in use.
    async fn renewed(&self, old: &Rc<Vm>, took: &mut Duration) -> Result<(Rc<Vm>, Scripts), RenewalError> {
        let mut timed = Timed { begun: Instant::now(), took };
        let fresh = Vm::new(&self.0.parts, Modules::of_same(&old.modules))?;
        let slots: Vec<_> = self.0.scripts.borrow().iter().filter_map(Weak::upgrade).collect();
        let mut scripts = Vec::new();
        for slot in slots {
            let Some(source) = &slot.source else { continue };
            scripts.push((slot.clone(), Rc::new(fresh.load(source)?)));
            timed.pause().await;
        }
        Ok((fresh, scripts))
    }

    fn replace(&self, old: &Rc<Vm>, fresh: Rc<Vm>, scripts: Scripts) {
        for (slot, script) in scripts {
            slot.script.replace(script);
        }
        self.0.vm.replace(fresh);
        old.fill.set(Fill::Replaced(Instant::now()));
        old.idle.take();
        self.0.pace.predecessor.replace(Rc::downgrade(old));
    }
}

type Scripts = Vec<(Rc<ScriptSlot>, Rc<Script>)>;

/// Measures the time that a task uses on its thread, without the time of other tasks.
struct Timed<'a> {
    begun: Instant,
    took: &'a mut Duration,
}

impl Timed<'_> {
    async fn pause(&mut self) {
        *self.took += self.begun.elapsed();
        tokio::task::yield_now().await;
        self.begun = Instant::now();
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        *self.took += self.begun.elapsed();
    }
}
