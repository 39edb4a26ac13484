//! Renewal of a VM that holds too much memory. Its garbage is collected, and a VM that still keeps too much
//! is replaced.
//!
//! The memory limit of a call ends a call that grows. Memory that calls leave in the VM belongs to no call.
//! Examples are a table that lives as long as its file, and coroutines that are never resumed. A call
//! therefore notifies the [`Keeper`](crate::Keeper) if it finds more than `vm_bytes_max` at its end, or if it
//! filled its own memory. The server then relieves the VM:
//!
//! | the VM | result |
//! | --- | --- |
//! | keeps at most three quarters of `vm_bytes_max` after a collection | continues: the rest was garbage |
//! | keeps more | a new VM from the files as read before gets the new calls |
//! | holds one and a half times `vm_bytes_max` before that | new calls are refused ([`Host::is_full`]) |
//!
//! Calls stay in the VM that they began in. Their memory is freed at the latest one wall budget later,
//! because a streamed reply then ends. `tollgate.shared` is outside the VMs. Values in locals of files are
//! lost with the old VM.
//!
//! Invariants:
//! - At most two VMs of a host hold memory. A VM is replaced only after its predecessor is gone.
//! - A script that fills VM after VM costs at most a twentieth of the thread's time, and at most four VMs a
//!   second.
//! - Collecting, loading and closing run in short stretches. Other tasks run between them.

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
    /// The VM holds no more than it may. Its excess was garbage.
    Within,
    /// Another VM replaced it.
    Replaced {
        /// Memory that the old VM kept, in bytes.
        bytes: usize,
        /// Limit of a VM, in bytes.
        limit_bytes: usize,
        /// Memory of the new VM, in bytes.
        fresh_bytes: usize,
    },
    /// The VM keeps too much, and can be replaced after this time.
    Waits(Duration),
    /// The VM keeps too much, and no new VM could be created. A later attempt is useful.
    Failed(RenewalError),
}

/// Reason why no new VM could be created.
#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    /// The VM itself failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A script failed to load, although it was loaded before.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Host {
    /// Returns whether new calls should be refused. The VM then holds one and a half times its limit, and
    /// waits for relief.
    pub fn is_full(&self) -> bool {
        let vm = self.0.vm.borrow();
        vm.fill.get() == Fill::Over && vm.lua.used_memory() > vm.parts.options.vm_bytes_max / 2 * 3
    }

    /// Collects the VM if it holds too much, and replaces it if that does not suffice. Calls continue
    /// meanwhile.
    ///
    /// # Cancel safety
    /// The new VM is dropped, and the old VM continues.
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

/// Measures the time of a thread, without the time of other tasks.
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
