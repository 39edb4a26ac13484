//! Leases of a Parquet sink: short texts in the lake.
//!
//! A place of files has no clock, and the clocks of two machines differ. So a lease has a count, which its
//! loader raises at each renewal. Another loader sees the lease end when the count has not changed for
//! [`LEASE_TIME`] of its own monotonic clock. Two loaders may write a lease at once. The later text counts,
//! and both loaders may load the log for one turn. The position decides which load counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate_lake::{LakeError, Ledger};

use super::options::ParquetOptions;
use super::place::open_ledger;
use crate::error::SinkError;
use crate::sink::key::{Monotonic, system_clock};
use crate::sink::leases::{LEASE_TIME, LeaseName, LeaseScope, LeaseTable, LiveLease};

/// The leases of one sink and one store.
pub(in crate::sink) struct LakeLeases {
    ledger: Ledger,
    scope: LeaseScope,
    /// The texts that were seen last, and since when.
    seen: BTreeMap<String, (String, Duration)>,
    clock: Monotonic,
}

/// A lease as its text has it. A released lease has no holder.
struct Written {
    name: LeaseName,
    holder: String,
    count: u64,
}

impl Written {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let name = lines.next()?.parse().ok()?;
        let holder = lines.next()?.to_owned();
        Some(Self { name, holder, count: lines.next()?.parse().ok()? })
    }

    fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n", self.name, self.holder, self.count)
    }
}

impl LakeLeases {
    pub(in crate::sink) fn open(
        options: &ParquetOptions,
        sink: &str,
        scope: LeaseScope,
    ) -> Result<Self, SinkError> {
        Ok(Self::new(open_ledger(options, sink)?, scope, system_clock()))
    }

    fn new(ledger: Ledger, scope: LeaseScope, clock: Monotonic) -> Self {
        Self { ledger, scope, seen: BTreeMap::new(), clock }
    }

    /// Reads a lease. Returns it with the time until it ends, as far as this loader knows.
    fn look(&mut self, object: &str) -> Result<Option<(Written, Duration)>, LakeError> {
        let Some(text) = self.ledger.place().text(object)? else { return Ok(None) };
        let Some(written) = Written::read(&text) else { return Ok(None) };
        let now = (self.clock)();
        let since = match self.seen.get(object) {
            Some((seen, since)) if *seen == text => *since,
            _ => now,
        };
        self.seen.insert(object.to_owned(), (text, since));
        let left = LEASE_TIME.saturating_sub(now.saturating_sub(since));
        let left = if written.holder.is_empty() { Duration::ZERO } else { left };
        Ok(Some((written, left)))
    }

    fn write(&self, object: &str, written: &Written) -> Result<(), LakeError> {
        self.ledger.place().replace_text(object, &written.to_text())
    }

    /// Takes or renews one lease. Returns whether the loader has it now.
    fn take_one(&mut self, name: &LeaseName) -> Result<bool, LakeError> {
        let object = self.ledger.lease(&self.scope.store, Some(&name.to_string()));
        let holder = self.scope.holder.clone();
        let count = match self.look(&object)? {
            Some((found, left)) if found.holder != holder && !left.is_zero() => return Ok(false),
            Some((found, _)) => found.count,
            None => 0,
        };
        self.write(&object, &Written { name: name.clone(), holder, count: count.wrapping_add(1) })?;
        let now = self.look(&object)?;
        Ok(now.is_some_and(|(found, _)| found.holder == self.scope.holder))
    }

    fn all(&mut self) -> Result<Vec<(Written, Duration)>, LakeError> {
        let mut found = Vec::new();
        for object in self.ledger.place().list(&self.ledger.lease(&self.scope.store, None), None)? {
            found.extend(self.look(&object)?);
        }
        Ok(found)
    }
}

impl LeaseTable for LakeLeases {
    fn take(&mut self, names: &BTreeSet<LeaseName>) -> Result<BTreeSet<LeaseName>, SinkError> {
        let mut taken = BTreeSet::new();
        for name in names {
            if self.take_one(name).map_err(SinkError::lake("take a lease"))? {
                taken.insert(name.clone());
            }
        }
        Ok(taken)
    }

    fn release(&mut self, names: &BTreeSet<LeaseName>) -> Result<(), SinkError> {
        let failed = || SinkError::lake("release a lease");
        for name in names {
            let object = self.ledger.lease(&self.scope.store, Some(&name.to_string()));
            if let Some((found, _)) = self.look(&object).map_err(failed())?
                && found.holder == self.scope.holder
            {
                let free = Written { holder: String::new(), count: found.count.wrapping_add(1), ..found };
                self.write(&object, &free).map_err(failed())?;
            }
        }
        Ok(())
    }

    fn live(&mut self) -> Result<Vec<LiveLease>, SinkError> {
        let all = self.all().map_err(SinkError::lake("read the leases"))?;
        let live = all.into_iter().filter(|(_, left)| !left.is_zero());
        Ok(live.map(|(found, left)| LiveLease { name: found.name, holder: found.holder, left }).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tollgate_lake::FolderPlace;
    use tollgate_log::LogId;

    use super::*;

    fn leases(folder: &std::path::Path, holder: &str, seconds: &Arc<AtomicU64>) -> LakeLeases {
        let ledger = Ledger::new(Box::new(FolderPlace::new(folder)), "lake");
        let scope = LeaseScope { store: "s3://store".to_owned(), holder: holder.to_owned() };
        let seconds = seconds.clone();
        LakeLeases::new(ledger, scope, Box::new(move || Duration::from_secs(seconds.load(Ordering::SeqCst))))
    }

    #[test]
    fn a_lease_of_a_lake_has_one_holder_until_it_is_no_longer_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Arc::new(AtomicU64::new(1));
        let names: BTreeSet<_> = [LeaseName::Log(LogId::random()), LeaseName::Retain].into();
        let [mut one, mut other] = ["one", "other"].map(|holder| leases(folder.path(), holder, &seconds));
        assert_eq!(one.take(&names).unwrap(), names);
        for _ in 0..10 {
            seconds.fetch_add(20, Ordering::SeqCst);
            assert_eq!(other.take(&names).unwrap(), BTreeSet::new());
            assert_eq!(one.take(&names).unwrap(), names);
        }
        let live = other.live().unwrap();
        assert!(
            live.len() == 2 && live.iter().all(|lease| lease.holder == "one" && lease.left == LEASE_TIME)
        );
        // The other loader has to see the same text for the whole time of a lease.
        seconds.fetch_add(LEASE_TIME.as_secs() - 1, Ordering::SeqCst);
        assert_eq!(other.take(&names).unwrap(), BTreeSet::new());
        seconds.fetch_add(1, Ordering::SeqCst);
        assert_eq!(other.take(&names).unwrap(), names);
        assert_eq!(one.take(&names).unwrap(), BTreeSet::new());
        // A released lease is free at once. A lease of another loader is not released.
        one.release(&names).unwrap();
        assert_eq!(one.take(&names).unwrap(), BTreeSet::new());
        other.release(&names).unwrap();
        assert_eq!(other.live().unwrap(), []);
        assert_eq!(one.take(&names).unwrap(), names);
    }
}
