//! The memory of a web machine, on its own disk: what it put on each volume that is away, and the answers
//! that came back.
//!
//! | name | content |
//! | --- | --- |
//! | `lists/ID` | the state file of a closed volume, as it was when the volume became `full` |
//! | `reports/ID` | the answers of a volume that was read without being written |
//! | `v1/pos/`, `v1/want/`, `v1/end/`, `v1/node/` | the texts of a store |

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tollgate_log::{DiskStorage, LogId, SegmentName, SegmentState, Sequence, make_folder, read_footer};

use super::disk;
use super::error::VolumeError;
use super::loaded::Loaded;
use super::state::{STATE_BYTES_MAX, VolumeFile, VolumeId};
use crate::answer::{EndAnswer, PositionAnswer, TEXT_BYTES_MAX, WantAnswer};
use crate::folder::FolderStore;
use crate::identity::SegmentIdentity;
use crate::name::ObjectName;
use crate::pace::Pacer;
use crate::store::{Store, StoreError};

/// Folder of the lists of volumes that are away.
const LISTS: &str = "lists";
/// Folder of reports.
const REPORTS: &str = "reports";

/// The memory of a web machine.
pub(super) struct Home {
    folder: PathBuf,
    /// The folder of all logs.
    logs: PathBuf,
    /// The sinks that need each record. Empty: all sinks that ever answered.
    sinks: Vec<String>,
    pub(super) texts: FolderStore,
}

impl Home {
    /// Opens the memory, and makes its folders.
    pub(super) fn open(folder: &Path, logs: &Path, sinks: &[String]) -> Result<Self, VolumeError> {
        for folder in [LISTS, REPORTS].map(|name| folder.join(name)) {
            let made = make_folder(&DiskStorage, &folder);
            made.map_err(|error| VolumeError::file("create", &folder)(io::Error::other(error)))?;
        }
        let texts = FolderStore::new(folder, Arc::new(Pacer::new(None)));
        Ok(Self { folder: folder.to_owned(), logs: logs.to_owned(), sinks: sinks.to_vec(), texts })
    }

    /// Reads the lists of all volumes that are away. A damaged list is left out: its segments are sent again.
    pub(super) fn lists(&self) -> Result<BTreeMap<VolumeId, VolumeFile>, VolumeError> {
        self.read_all(LISTS, VolumeFile::parse)
    }

    /// Returns the volumes that have a list.
    pub(super) fn list_ids(&self) -> Result<BTreeSet<VolumeId>, VolumeError> {
        let folder = self.folder.join(LISTS);
        let entries = fs::read_dir(&folder).map_err(VolumeError::file("list", &folder))?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names = names.collect::<Result<Vec<_>, _>>().map_err(VolumeError::file("list", &folder))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    pub(super) fn write_list(&self, file: &VolumeFile) -> Result<(), VolumeError> {
        let (folder, name) = (self.folder.join(LISTS), file.id.to_string());
        disk::write_text(&folder, &name, &file.to_text())
            .map_err(VolumeError::file("write", &folder.join(name)))
    }

    pub(super) fn remove_list(&self, id: VolumeId) -> Result<(), VolumeError> {
        Self::forget(&self.folder, id)
    }

    /// Returns whether the memory in a folder has a list of a volume.
    pub(super) fn has_list(folder: &Path, id: VolumeId) -> bool {
        folder.join(LISTS).join(id.to_string()).is_file()
    }

    /// Removes the list of a volume from the memory in a folder.
    pub(super) fn forget(folder: &Path, id: VolumeId) -> Result<(), VolumeError> {
        remove(&folder.join(LISTS).join(id.to_string()))
    }

    /// Reads all reports.
    pub(super) fn reports(&self) -> Result<BTreeMap<VolumeId, Loaded>, VolumeError> {
        self.read_all(REPORTS, Loaded::parse)
    }

    pub(super) fn write_report(folder: &Path, report: &Loaded) -> Result<(), VolumeError> {
        let (folder, name) = (folder.join(REPORTS), report.id.to_string());
        let made = make_folder(&DiskStorage, &folder);
        made.map_err(|error| VolumeError::file("create", &folder)(io::Error::other(error)))?;
        disk::write_text(&folder, &name, &report.to_text())
            .map_err(VolumeError::file("write", &folder.join(name)))
    }

    pub(super) fn remove_report(&self, id: VolumeId) -> Result<(), VolumeError> {
        remove(&self.folder.join(REPORTS).join(id.to_string()))
    }

    fn read_all<T>(
        &self,
        folder: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<BTreeMap<VolumeId, T>, VolumeError> {
        let folder = self.folder.join(folder);
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(VolumeError::file("list", &folder))?.flatten() {
            let id = entry.file_name().to_str().and_then(|name| VolumeId::from_str(name).ok());
            let Some(id) = id else { continue };
            let path = entry.path();
            let parsed = match disk::read_text(&path, STATE_BYTES_MAX) {
                Ok(None) => continue,
                Ok(Some(text)) => parse(&text),
                // It is no text.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.to_string()),
                Err(error) => return Err(VolumeError::file("read", &path)(error)),
            };
            match parsed {
                Ok(found) => drop(all.insert(id, found)),
                Err(reason) => {
                    let file = path.display();
                    tracing::error!(%file, reason, "a file about a volume is damaged: it is ignored");
                }
            }
        }
        Ok(all)
    }

    /// Returns the last record of a log that every sink has.
    pub(super) fn loaded(&self, log: LogId) -> Result<Sequence, StoreError> {
        let answered;
        let sinks = if self.sinks.is_empty() {
            answered = self.texts.folders("v1/pos/")?;
            &answered
        } else {
            &self.sinks
        };
        let mut loaded: Option<Sequence> = None;
        for sink in sinks {
            let last = self.position(sink, log)?.map(|answer| answer.position.last).unwrap_or_default();
            loaded = Some(loaded.map_or(last, |loaded| loaded.min(last)));
        }
        Ok(loaded.unwrap_or_default())
    }

    fn position(&self, sink: &str, log: LogId) -> Result<Option<PositionAnswer>, StoreError> {
        let name = ObjectName::Position { sink: sink.to_owned(), log }.to_string();
        Ok(self.texts.text(&name, TEXT_BYTES_MAX)?.as_deref().and_then(PositionAnswer::parse))
    }

    /// Stores answers like texts of a store. Returns the sinks and logs whose chain of checksums differs from
    /// what this machine put on the volume: those positions are of another log of that name.
    pub(super) fn deliver(
        &self,
        loaded: &Loaded,
        list: &VolumeFile,
    ) -> Result<Vec<(String, LogId)>, StoreError> {
        let mut chains = BTreeMap::new();
        for (name, _, identity) in list.segments() {
            if let (Some(ObjectName::Segment { log, .. }), Some((last, chain))) =
                (ObjectName::parse(name), identity.end())
            {
                chains.insert((log, last), chain);
            }
        }
        let mut forked = Vec::new();
        for ((sink, log), answer) in &loaded.positions {
            let own = chains.get(&(*log, answer.position.last));
            if let (Some(own), Some(chain)) = (own, answer.position.chain)
                && *own != chain
            {
                forked.push((sink.clone(), *log));
                continue;
            }
            // Volumes may come back in another order than they were loaded.
            if self.position(sink, *log)?.is_none_or(|known| known.at_ms <= answer.at_ms) {
                let name = ObjectName::Position { sink: sink.clone(), log: *log }.to_string();
                if ObjectName::parse(&name).is_some() {
                    self.texts.put_text(&name, &answer.to_text())?;
                }
            }
            disk::step().map_err(StoreError::file("write", &self.folder))?;
        }
        for (log, first) in &loaded.wanted {
            let name = ObjectName::Want { log: *log, first: *first }.to_string();
            if self.loaded(*log)? < *first && self.texts.text(&name, TEXT_BYTES_MAX)?.is_none() {
                self.texts.put_text(&name, WantAnswer::Wanted.to_text())?;
            }
        }
        Ok(forked)
    }

    /// Returns the texts that a closed volume carries to the host that loads, and removes the texts that no
    /// loader needs any more: ends of logs that are over, and answers that a wanted segment is deleted here.
    pub(super) fn carried(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let mut names = self.texts.list(&ObjectName::ends(), None)?;
        for log in self.texts.folders("v1/want/")? {
            if let Ok(log) = log.parse() {
                names.extend(self.texts.list(&ObjectName::wanted_of(log), None)?);
            }
        }
        let mut carried = BTreeMap::new();
        for name in names {
            let Some(text) = self.texts.text(&name, TEXT_BYTES_MAX)? else { continue };
            let (log, last, is_answer) = match ObjectName::parse(&name) {
                Some(ObjectName::End(log)) => (log, EndAnswer::parse(&text).map(|end| end.last), true),
                Some(ObjectName::Want { log, first }) => {
                    (log, Some(first), WantAnswer::parse(&text) == Some(WantAnswer::Gone))
                }
                _ => continue,
            };
            if last.is_some_and(|last| last <= self.loaded(log).unwrap_or_default()) {
                self.texts.remove(&name)?;
            } else if is_answer {
                carried.insert(name, text);
            }
        }
        Ok(carried)
    }

    /// Returns the file of a segment on this machine, with its size and identity. `None`: it is deleted here.
    pub(super) fn local(&self, name: &str) -> Option<(PathBuf, u64, SegmentIdentity)> {
        let Some(ObjectName::Segment { log, first, .. }) = ObjectName::parse(name) else { return None };
        let file = SegmentName { first, state: SegmentState::Sealed };
        let path = file.path(&self.logs.join(log.to_string()));
        let footer = read_footer(&DiskStorage, &path).ok().flatten()?;
        Some((path, footer.file_bytes(), SegmentIdentity::of(&footer)))
    }
}

fn remove(path: &Path) -> Result<(), VolumeError> {
    disk::remove(path).map_err(VolumeError::file("delete", path))
}
