//! The volumes of a web machine as a store: segments go to the volume that is being filled, and texts to the
//! memory of this machine.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_log::{LogId, Sequence};

use super::error::VolumeError;
use super::filler::Filler;
use super::options::VolumeOptions;
use super::state::VolumeId;
use super::status::VolumeWatch;
use crate::answer::now_ms;
use crate::identity::SegmentIdentity;
use crate::logs::ShippedLogs;
use crate::name::ObjectName;
use crate::pace::Pacer;
use crate::store::{Created, LISTED_MAX, ObjectHead, Store, StoreError};

/// Prefix of all segments.
const SEGMENTS: &str = "v1/seg/";

/// Several volumes in turn, as a store.
///
/// A segment counts as stored while its volume is being filled and mounted, and from its close until the
/// answers are here. Local copies have to stay until then: use [`crate::DeleteRule::Loaded`], and
/// [`KeptUntilLoaded`].
pub struct VolumeStore {
    filler: Mutex<Filler>,
    watch: VolumeWatch,
}

impl VolumeStore {
    /// Reads the memory of this machine. The first call of the store looks at the folders, because a disk
    /// that hangs must not stop the caller's start.
    ///
    /// # Errors
    /// The memory of this machine cannot be read or made.
    pub fn open(options: VolumeOptions, pacer: Arc<Pacer>) -> Result<Self, VolumeError> {
        let watch = VolumeWatch::default();
        let filler = Mutex::new(Filler::new(options, pacer, watch.clone())?);
        Ok(Self { filler, watch })
    }

    /// Returns a handle that reads the state.
    pub fn watch(&self) -> VolumeWatch {
        self.watch.clone()
    }

    /// Looks at all folders: takes volumes back, closes one by age, and sends segments again.
    ///
    /// Each call of the store looks too, at most every `look`.
    pub fn look(&self) {
        self.lock().look_now();
    }

    /// Closes the volume that is being filled.
    ///
    /// # Errors
    /// The volume cannot be closed.
    pub fn close(&self) -> Result<(), VolumeError> {
        self.lock().close()
    }

    /// Forgets a closed volume that is lost. Its segments go to the next volume. Returns whether it was
    /// known.
    ///
    /// # Errors
    /// The memory of this machine cannot be written.
    pub fn forget(&self, id: VolumeId) -> Result<bool, VolumeError> {
        let mut filler = self.lock();
        let is_known = filler.retire(id)?;
        filler.look_now();
        Ok(is_known)
    }

    fn lock(&self) -> MutexGuard<'_, Filler> {
        self.filler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the volumes after a look at them.
    fn looked(&self) -> MutexGuard<'_, Filler> {
        let mut filler = self.lock();
        filler.look();
        filler
    }
}

impl Store for VolumeStore {
    fn create(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<Created, StoreError> {
        check_segment(name, identity)?;
        let mut filler = self.looked();
        if filler.held(name).is_some() || filler.loaded(name)?.is_some() {
            return Ok(Created::Exists);
        }
        filler.put(name, file, identity, false)
    }

    fn replace(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<(), StoreError> {
        check_segment(name, identity)?;
        self.looked().put(name, file, identity, true).map(drop)
    }

    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError> {
        self.looked().home.texts.put_text(name, text)
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        let filler = self.looked();
        if segment_of(name).is_err() {
            return filler.home.texts.head(name);
        }
        // A loader deletes nothing by this time, because it never reads this store.
        let modified_ms = now_ms();
        if let Some((bytes, identity)) = filler.held(name) {
            return Ok(Some(ObjectHead { bytes, modified_ms, identity: Some(identity.clone()) }));
        }
        if let Some((bytes, identity)) = filler.loaded(name)? {
            return Ok(Some(ObjectHead { bytes, modified_ms, identity: Some(identity) }));
        }
        Ok(filler.found_on_filling(name))
    }

    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError> {
        self.looked().home.texts.text(name, bytes_max)
    }

    fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError> {
        segment_of(name)?;
        self.looked().fetch(name, file, bytes_max)
    }

    /// Deletes a text. Only a volume that came back is emptied, so a segment stays.
    fn remove(&self, name: &str) -> Result<(), StoreError> {
        if segment_of(name).is_ok() {
            return Ok(());
        }
        self.looked().home.texts.remove(name)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let filler = self.looked();
        if !prefix.starts_with(SEGMENTS) {
            return filler.home.texts.list(prefix, after);
        }
        Ok(names_after(filler.held_names().iter(), prefix, after))
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let filler = self.looked();
        if !prefix.starts_with(SEGMENTS) {
            return filler.home.texts.folders(prefix);
        }
        Ok(folders_of(filler.held_names().iter(), prefix))
    }
}

/// The logs of a machine whose segments stay until they are loaded, also while the disk is nearly full.
///
/// A volume that is lost on its way loses no record then. Without space, records are refused.
pub struct KeptUntilLoaded<L>(pub L);

impl<L: ShippedLogs> ShippedLogs for KeptUntilLoaded<L> {
    fn live(&self) -> Option<LogId> {
        self.0.live()
    }

    fn is_ours(&self, log: LogId) -> bool {
        self.0.is_ours(log)
    }

    fn confirm(&self, log: LogId, last: Sequence) {
        self.0.confirm(log, last);
    }

    fn is_room_tight(&self) -> bool {
        false
    }
}

/// Refuses a name or an identity that no sealed segment has. A state file with such an entry could not be
/// read.
fn check_segment(name: &str, identity: &SegmentIdentity) -> Result<(), StoreError> {
    segment_of(name)?;
    if identity.end().is_some() && !identity.as_str().contains(char::is_whitespace) {
        return Ok(());
    }
    let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it has no identity of a segment");
    Err(StoreError::call("store", name)(source))
}

fn segment_of(name: &str) -> Result<ObjectName, StoreError> {
    let parsed = ObjectName::parse(name).filter(|name| matches!(name, ObjectName::Segment { .. }));
    parsed.ok_or_else(|| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not the name of a segment");
        StoreError::call("store", name)(source)
    })
}

/// Returns the names with a prefix, without a further `/`, as [`Store::list`] does.
pub(super) fn names_after<'a>(
    names: impl Iterator<Item = &'a String>,
    prefix: &str,
    after: Option<&str>,
) -> Vec<String> {
    let names = names.filter(|name| name.strip_prefix(prefix).is_some_and(|rest| !rest.contains('/')));
    names.filter(|name| after.is_none_or(|after| name.as_str() > after)).take(LISTED_MAX).cloned().collect()
}

/// Returns the folders below a prefix, as [`Store::folders`] does.
pub(super) fn folders_of<'a>(names: impl Iterator<Item = &'a String>, prefix: &str) -> Vec<String> {
    let folders = names.filter_map(|name| name.strip_prefix(prefix)?.split_once('/'));
    let folders: std::collections::BTreeSet<_> = folders.map(|(folder, _)| folder.to_owned()).collect();
    folders.into_iter().collect()
}
