//! The renewal of a VM that holds too much: its garbage is collected, and a VM that keeps too much is
//! replaced.
//!
//! The bound of a call ends a call that grows; what calls leave behind - in a table that lives as long as its
//! file, in coroutines that are never resumed - is nobody's growth. So a call whose end finds more than
//! `vm_bytes_max`, or that filled its own memory, presses the [`Keeper`](crate::Keeper), and whoever looks
//! after the VMs has it relieved:
//!
//! | the VM | then |
//! | --- | --- |
//! | keeps at most three quarters after a collection | it was garbage: it serves on |
//! | keeps more | a fresh one is made of what the first was made of, whatever the disk says now; new calls go there |
//! | holds one and a half times of it before that | new calls are refused ([`Host::is_full`]) |
//!
//! Calls stay in the VM that they began in. What they hold is freed at the latest a wall budget later: a
//! reply that is streamed so long ends. `tollgate.shared` lies outside of the VMs. What locals of files held
//! is gone with the old one.
//!
//! Invariants:
//! - At most two VMs of a host hold memory: none is replaced before its predecessor is gone.
//! - A script that fills VM after VM takes a twentieth of the thread by it at most, and four VMs a second.
//! - Collecting, loading and closing go by stretches between which others have their turns.

use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use crate::error::{HostError, LoadError};
use crate::host::Host;
use crate::keeper::collect;
use crate::loaded_script::ScriptSlot;
use crate::require::Modules;
use crate::script::Script;
use crate::vm::{Fill, Vm};

/// What became of a VM that held too much.
#[derive(Debug)]
pub enum Relief {
    /// It does not, or no longer: it was garbage.
    Within,
    /// Another took its place.
    Replaced {
        /// What it kept.
        bytes: usize,
        /// What it may hold.
        limit_bytes: usize,
        /// What the one in its place keeps.
        fresh_bytes: usize,
    },
    /// It keeps too much, and is replaced once this time is over.
    Waits(Duration),
    /// It keeps too much, and no other could be made: that is tried again.
    Failed(RenewalError),
}

/// Why no VM could be made in place of another.
#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    /// The VM itself.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A script that was loaded before.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl Host {
    /// Whether new calls should be refused: the VM holds one and a half times what it may, and waits to be
    /// relieved.
    pub fn is_full(&self) -> bool {
        let vm = self.0.vm.borrow();
        vm.fill.get() == Fill::Over && vm.lua.used_memory() > vm.parts.options.vm_bytes_max / 2 * 3
    }

    /// Collects the VM if it holds too much, and replaces it if that does not help. Calls go on meanwhile.
    ///
    /// # Cancel safety
    /// What was made so far is dropped, and the VM serves on.
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

    /// Makes another VM with all scripts that are in use.
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

/// Counts the time of a thread without that of others.
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
