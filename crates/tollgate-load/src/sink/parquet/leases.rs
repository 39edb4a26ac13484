//! Leases of a Parquet sink: short texts in the lake.
//!
//! A place of files has no clock, and the clocks of two machines differ. So a lease has a count, which its
//! loader raises at each renewal. Another loader sees the lease end when the count has not changed for
//! [`LEASE_TIME`] of its own monotonic clock. Two loaders may write a lease at once. The later text counts,
//! and both loaders may load the log for one turn. The position decides which load counts.
//!
//! A loader removes the text of a lease that it ends. It also removes a text that it has seen without a
//! change for [`UNUSED_MAX`], because the holder was killed. So each turn reads only
//! live leases and leases that ended within about an hour.
//!
//! A store has no conditional removal. Another loader may take the lease between the last look of the remover
//! and the removal. Then the lease has no text until the next renewal, and a third loader may take it. This
//! is the case of two loaders above.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate_lake::{LakeError, Ledger};
use tollgate_log::join_chain;

use super::options::ParquetOptions;
use super::place::open_ledger;
use crate::error::SinkError;
use crate::sink::key::{Monotonic, system_clock};
use crate::sink::leases::{LEASE_TIME, LeaseName, LeaseScope, LeaseTable, LiveLease};

/// Time without a change after which any loader removes the text of a lease.
const UNUSED_MAX: Duration = Duration::from_hours(1);
/// Number of unused texts that are removed with one look at all leases, so that a turn stays short.
const REMOVED_AT_ONCE: usize = 16;

/// The leases of one sink and one store.
pub(in crate::sink) struct LakeLeases {
    ledger: Ledger,
    scope: LeaseScope,
    /// The texts that were seen last, and since when.
    seen: BTreeMap<String, (String, Duration)>,
    clock: Monotonic,
    /// Time of the next removal of unused texts, after a removal failed.
    removes_from: Duration,
}

/// A lease as its text has it. A lease that ended, and whose text could not be removed, has no holder.
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
        Self { ledger, scope, seen: BTreeMap::new(), clock, removes_from: Duration::ZERO }
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
            // Another loader may have seen an earlier text of this lease, and not its removal. The count is
            // random, so that the new text differs from that text.
            None => getrandom::u64().unwrap_or_default(),
        };
        self.write(&object, &Written { name: name.clone(), holder, count: count.wrapping_add(1) })?;
        let now = self.look(&object)?;
        Ok(now.is_some_and(|(found, _)| found.holder == self.scope.holder))
    }

    /// Ends a lease of the loader.
    fn end(&mut self, object: &str, found: Written) -> Result<(), LakeError> {
        self.seen.remove(object);
        if let Err(error) = self.ledger.place().remove_text(object) {
            // The store may allow no removal. Without a holder, the lease is free at once, too.
            tracing::debug!(object, reason = join_chain(&error), "the text of a lease is not removed");
            let free = Written { holder: String::new(), count: found.count.wrapping_add(1), ..found };
            return self.write(object, &free);
        }
        Ok(())
    }

    fn all(&mut self) -> Result<Vec<(Written, Duration)>, LakeError> {
        let objects = self.ledger.place().list(&self.ledger.lease(&self.scope.store, None), None)?;
        let mut found = Vec::new();
        for object in &objects {
            found.extend(self.look(object)?);
        }
        let objects: BTreeSet<_> = objects.into_iter().collect();
        self.seen.retain(|object, _| objects.contains(object));
        self.remove_unused();
        Ok(found)
    }

    fn is_unused(&self, object: &str, now: Duration) -> bool {
        self.seen.get(object).is_some_and(|(_, since)| now.saturating_sub(*since) >= UNUSED_MAX)
    }

    /// Removes texts that no loader has renewed for [`UNUSED_MAX`]. Leases work without it, so a failure is
    /// only logged.
    fn remove_unused(&mut self) {
        let now = (self.clock)();
        if now < self.removes_from {
            return;
        }
        let unused = self.seen.keys().filter(|object| self.is_unused(object, now));
        let unused: Vec<_> = unused.take(REMOVED_AT_ONCE).cloned().collect();
        for object in unused {
            if let Err(error) = self.remove_if_unused(&object, now) {
                tracing::debug!(object, reason = join_chain(&error), "an unused lease is not removed");
                self.removes_from = now + UNUSED_MAX;
                return;
            }
        }
    }

    fn remove_if_unused(&mut self, object: &str, now: Duration) -> Result<(), LakeError> {
        // Another loader may have taken the lease since the look at all of them.
        if self.look(object)?.is_some() && self.is_unused(object, now) {
            self.ledger.place().remove_text(object)?;
            self.seen.remove(object);
        }
        Ok(())
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
                self.end(&object, found).map_err(failed())?;
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
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tollgate_lake::{Created, FileStamp, FolderPlace, Place};
    use tollgate_log::LogId;

    use super::*;

    fn leases(folder: &std::path::Path, holder: &str, seconds: &Arc<AtomicU64>) -> LakeLeases {
        let ledger = Ledger::new(Box::new(FolderPlace::new(folder)), "lake");
        let scope = LeaseScope { store: "s3://store".to_owned(), holder: holder.to_owned() };
        let seconds = seconds.clone();
        LakeLeases::new(ledger, scope, Box::new(move || Duration::from_secs(seconds.load(Ordering::SeqCst))))
    }

    /// A place that allows no removal.
    struct KeepingPlace(FolderPlace);

    impl Place for KeepingPlace {
        fn create_file(&self, name: &str, file: &Path, stamp: &FileStamp) -> Result<Created, LakeError> {
            self.0.create_file(name, file, stamp)
        }
        fn create_text(&self, name: &str, text: &str) -> Result<Created, LakeError> {
            self.0.create_text(name, text)
        }
        fn replace_text(&self, name: &str, text: &str) -> Result<(), LakeError> {
            self.0.replace_text(name, text)
        }
        fn remove_text(&self, name: &str) -> Result<(), LakeError> {
            Err(LakeError::call("remove", name)(std::io::Error::from(std::io::ErrorKind::PermissionDenied)))
        }
        fn text(&self, name: &str) -> Result<Option<String>, LakeError> {
            self.0.text(name)
        }
        fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LakeError> {
            self.0.stamp(name)
        }
        fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, LakeError> {
            self.0.list(prefix, after)
        }
        fn folders(&self, prefix: &str) -> Result<Vec<String>, LakeError> {
            self.0.folders(prefix)
        }
        fn fetch(&self, name: &str, file: &Path) -> Result<bool, LakeError> {
            self.0.fetch(name, file)
        }
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

    /// Returns the texts of all leases.
    fn texts(leases: &LakeLeases) -> Vec<String> {
        let place = leases.ledger.place();
        let objects = place.list(&leases.ledger.lease(&leases.scope.store, None), None).unwrap();
        objects.iter().map(|object| place.text(object).unwrap().unwrap()).collect()
    }

    #[test]
    fn an_ended_lease_leaves_no_text_and_its_next_text_is_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Arc::new(AtomicU64::new(1));
        let names: BTreeSet<_> = [LeaseName::Log(LogId::random())].into();
        let [mut one, mut other] = ["one", "other"].map(|holder| leases(folder.path(), holder, &seconds));
        one.take(&names).unwrap();
        assert_eq!((texts(&one).len(), other.live().unwrap().len()), (1, 1));
        seconds.fetch_add(LEASE_TIME.as_secs() - 1, Ordering::SeqCst);
        one.release(&names).unwrap();
        assert_eq!(texts(&one), [""; 0]);
        // The other loader has not seen the release. It must not take the new text for the old one.
        one.take(&names).unwrap();
        seconds.fetch_add(1, Ordering::SeqCst);
        assert_eq!(other.take(&names).unwrap(), BTreeSet::new());
        assert_eq!(other.live().unwrap().len(), 1);
    }

    #[test]
    fn texts_that_no_loader_renews_are_removed_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Arc::new(AtomicU64::new(1));
        let [mut killed, mut one] = ["killed", "one"].map(|holder| leases(folder.path(), holder, &seconds));
        let count = 3 * REMOVED_AT_ONCE;
        let lost: BTreeSet<_> = (0..count).map(|_| LeaseName::Log(LogId::random())).collect();
        killed.take(&lost).unwrap();
        // An earlier version ended a lease with a text without a holder.
        let name = LeaseName::Log(LogId::random());
        let object = one.ledger.lease(&one.scope.store, Some(&name.to_string()));
        one.write(&object, &Written { name, holder: String::new(), count: 7 }).unwrap();
        let renewed: BTreeSet<_> = [LeaseName::Retain, lost.first().cloned().unwrap()].into();
        let mut turn = || {
            let live = one.live().unwrap().len();
            one.take(&renewed).unwrap();
            (live, texts(&one).len())
        };
        assert_eq!(turn(), (count, count + 2));
        for _ in 0..UNUSED_MAX.as_secs() / 20 - 1 {
            seconds.fetch_add(20, Ordering::SeqCst);
            assert_eq!(turn().1, count + 2);
        }
        // The texts go in several turns. The renewed leases keep theirs.
        let mut left = Vec::new();
        for _ in 0..5 {
            seconds.fetch_add(20, Ordering::SeqCst);
            left.push(turn());
        }
        let texts: Vec<_> = left.iter().map(|(_, texts)| *texts).collect();
        assert_eq!(texts, [count + 2 - 16, count + 2 - 32, 2, 2, 2]);
        assert!(left.iter().all(|(live, _)| *live == 2), "{left:?}");
    }

    #[test]
    fn a_lease_ends_although_its_text_cannot_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Arc::new(AtomicU64::new(1));
        let names: BTreeSet<_> = [LeaseName::Retain].into();
        let scope = LeaseScope { store: "s3://store".to_owned(), holder: "one".to_owned() };
        let place = KeepingPlace(FolderPlace::new(folder.path()));
        let shared = seconds.clone();
        let clock = move || Duration::from_secs(shared.load(Ordering::SeqCst));
        let mut one = LakeLeases::new(Ledger::new(Box::new(place), "lake"), scope, Box::new(clock));
        let mut other = leases(folder.path(), "other", &seconds);
        one.take(&names).unwrap();
        one.release(&names).unwrap();
        assert_eq!(texts(&one).len(), 1);
        assert_eq!((other.live().unwrap(), other.take(&names).unwrap()), (vec![], names));
    }
}
