//! A volume on the host that loads, as a store to read.
//!
//! | state of the volume | what this host does |
//! | --- | --- |
//! | `full` | takes it over, or reads it without a write if a report file is named |
//! | `loading`, this host | goes on |
//! | `loading` or `done`, another host | refuses it, or takes it over if the operator ordered that |
//! | `filling` | refuses it: it was moved before it was closed |
//! | `done` by this host, in an earlier process | runs the hook again, and shows nothing |
//! | `empty`, `cleaning` | shows nothing |
//!
//! Only listed files are read. The volume is done when each listed segment is loaded by all sinks, or lies
//! at or after a segment of its log that is asked for again. The web machine sends those segments again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tollgate_log::{LogId, Sequence, join_chain};

use super::disk;
use super::error::VolumeError;
use super::loaded::{LOADED_FILE, Loaded};
use super::opened::OpenVolume;
use super::options::SourceOptions;
use super::state::{Listed, Transition, VolumeFile, VolumeId, VolumeSide, VolumeState};
use super::status::VolumeFacts;
use super::store::{folders_of, names_after};
use crate::answer::{PositionAnswer, WantAnswer};
use crate::identity::SegmentIdentity;
use crate::name::ObjectName;
use crate::pace::Pacer;
use crate::store::{Created, ObjectHead, Store, StoreError};

/// State of the volume that a host loads.
#[derive(Debug, Clone, Default)]
pub struct SourceStatus {
    /// The volume that was seen last. `None`: none was.
    pub volume: Option<VolumeFacts>,
    /// Why the volume cannot be loaded. `None`: it can, or is done.
    pub fault: Option<String>,
    /// The last volume that is done, with its generation.
    pub done: Option<(VolumeId, u64)>,
    /// The last failure of the hook, until it works.
    pub hook_fault: Option<String>,
}

#[derive(Default)]
struct Answers {
    key: Option<(VolumeId, u64)>,
    positions: BTreeMap<(String, LogId), PositionAnswer>,
    wanted: BTreeSet<(LogId, Sequence)>,
    hook: Option<JoinHandle<()>>,
}

/// A volume on the host that loads, as a store to read.
pub struct VolumeSource {
    options: SourceOptions,
    pacer: Arc<Pacer>,
    answers: Mutex<Answers>,
    status: Arc<Mutex<SourceStatus>>,
}

impl VolumeSource {
    /// Opens the folder, and takes a full volume over.
    ///
    /// # Errors
    /// No volume is mounted, or this host may not load it.
    pub fn open(options: SourceOptions) -> Result<Self, VolumeError> {
        let source = Self::new(options);
        source.look(&mut source.lock()).map(drop)?;
        Ok(source)
    }

    /// Waits for a volume in the folder. Until then, each call of the store is an error.
    pub fn new(options: SourceOptions) -> Self {
        let pacer = Arc::new(Pacer::new(None));
        Self { options, pacer, answers: Mutex::default(), status: Arc::default() }
    }

    /// Returns the state.
    pub fn status(&self) -> SourceStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finishes a volume that is not loaded whole, with the answers so far. The web machine sends the rest
    /// again.
    ///
    /// # Errors
    /// The volume is not mounted, or the answers cannot be written.
    pub fn give_back(&self) -> Result<(), VolumeError> {
        let mut answers = self.lock();
        if let Some(volume) = self.look(&mut answers)? {
            self.finish(&mut answers, volume)?;
        }
        Ok(())
    }

    /// Waits until the hook of a finished volume has ended.
    pub fn wait_for_hook(&self) {
        let hook = self.lock().hook.take();
        // A hook that panicked has ended too.
        drop(hook.map(JoinHandle::join));
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut SourceStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Opens the volume if it has something to load. Finishes it if all is loaded.
    fn look(&self, answers: &mut Answers) -> Result<Option<OpenVolume>, VolumeError> {
        if answers.hook.as_ref().is_some_and(|hook| !hook.is_finished()) {
            return Ok(None);
        }
        answers.hook = None;
        let opened = self.open_to_load(answers);
        self.note(|status| status.fault = opened.as_ref().err().map(|error| join_chain(error)));
        match opened? {
            Some(volume) if self.is_complete(answers, &volume.file) => {
                self.finish(answers, volume)?;
                Ok(None)
            }
            opened => Ok(opened),
        }
    }

    fn open_to_load(&self, answers: &mut Answers) -> Result<Option<OpenVolume>, VolumeError> {
        let folder = &self.options.folder;
        let done = self.status().done;
        let mut volume = match OpenVolume::open(folder, self.options.same_device, VolumeSide::Database) {
            // The next volume is on its way.
            Err(VolumeError::NotMounted { .. }) if done.is_some() => return Ok(None),
            opened => opened?,
        };
        self.note(|status| status.volume = Some(VolumeFacts::of(&volume.file)));
        let key = volume.file.key();
        if done == Some(key) {
            return Ok(None);
        }
        let is_own = volume.file.host.as_ref() == Some(&self.options.host);
        let host = volume.file.host.clone();
        let transition = match volume.file.state {
            VolumeState::Empty | VolumeState::Cleaning => return Ok(None),
            VolumeState::Filling => {
                let (folder, found) = (folder.clone(), volume.file.state);
                return Err(VolumeError::State { folder, found, action: "load" });
            }
            VolumeState::Full if self.options.report.is_some() => None,
            VolumeState::Full => Some(Transition::TakeOver),
            VolumeState::Loading if is_own => None,
            VolumeState::Done if !self.options.take_over => {
                if is_own {
                    // An earlier process finished it, and perhaps ended before the hook did.
                    self.note(|status| status.done = Some(key));
                    drop(volume);
                    self.run_hook(answers, key.0, key.1);
                }
                return Ok(None);
            }
            VolumeState::Loading | VolumeState::Done if self.options.take_over => {
                Some(Transition::TakeFromHost)
            }
            VolumeState::Loading | VolumeState::Done => {
                let host = host.unwrap_or_else(|| self.options.host.clone());
                return Err(VolumeError::OtherHost { folder: folder.clone(), host });
            }
        };
        if let Some(transition) = transition {
            let mut next = volume.after(transition, "load")?;
            next.host = Some(self.options.host.clone());
            volume.write(next)?;
            self.note(|status| status.volume = Some(VolumeFacts::of(&volume.file)));
        }
        if answers.key != Some(key) {
            (answers.key, answers.wanted) = (Some(key), BTreeSet::new());
        }
        Ok(Some(volume))
    }

    /// Returns the last record of a log that every sink has.
    fn loaded(&self, answers: &Answers, log: LogId) -> Sequence {
        let last = |sink: &String| {
            let answer = answers.positions.get(&(sink.clone(), log));
            answer.map_or(Sequence::default(), |answer| answer.position.last)
        };
        self.options.sinks.iter().map(last).min().unwrap_or_default()
    }

    fn is_complete(&self, answers: &Answers, file: &VolumeFile) -> bool {
        let mut loaded = BTreeMap::new();
        file.segments().all(|(name, _, identity)| {
            let Some(ObjectName::Segment { log, first, .. }) = ObjectName::parse(name) else { return false };
            let last = *loaded.entry(log).or_insert_with(|| self.loaded(answers, log));
            let is_loaded = identity.end().is_some_and(|(end, _)| end <= last);
            is_loaded || answers.wanted.range((log, last.after(1))..=(log, first)).next().is_some()
        })
    }

    /// Writes the answers, and makes the volume `done`.
    fn finish(&self, answers: &mut Answers, mut volume: OpenVolume) -> Result<(), VolumeError> {
        let (id, generation) = volume.file.key();
        let not_loaded = |(log, first): &&(LogId, Sequence)| *first > self.loaded(answers, *log);
        let loaded = Loaded {
            id,
            generation,
            node: volume.file.node.clone().unwrap_or_else(|| self.options.host.clone()),
            host: self.options.host.clone(),
            positions: answers.positions.clone(),
            wanted: answers.wanted.iter().filter(not_loaded).copied().collect(),
        };
        if let Some(report) = &self.options.report {
            write_report(report, &loaded)?;
        } else {
            let failed = VolumeError::file("write", &volume.mounted.folder().join(LOADED_FILE));
            disk::write_text(volume.mounted.path(), LOADED_FILE, &loaded.to_text()).map_err(failed)?;
            volume.apply(Transition::Finish, "finish")?;
        }
        tracing::info!(folder = %self.options.folder.display(), volume = %id, "a volume is loaded");
        self.note(|status| {
            (status.volume, status.done) = (Some(VolumeFacts::of(&volume.file)), Some((id, generation)));
        });
        // The hook unmounts, so nothing of the volume may be open.
        drop(volume);
        self.run_hook(answers, id, generation);
        Ok(())
    }

    fn run_hook(&self, answers: &mut Answers, id: VolumeId, generation: u64) {
        let Some(hook) = self.options.on_done.clone() else { return };
        let (status, folder) = (self.status.clone(), self.options.folder.clone());
        let run = move || {
            let fault = hook.run(id, generation, &folder).err().map(|error| join_chain(&error));
            if let Some(reason) = &fault {
                tracing::error!(folder = %folder.display(), reason, "the hook of a loaded volume failed");
            }
            status.lock().unwrap_or_else(PoisonError::into_inner).hook_fault = fault;
        };
        match thread::Builder::new().name("volume-hook".to_owned()).spawn(run) {
            Ok(hook) => answers.hook = Some(hook),
            Err(error) => self.note(|status| status.hook_fault = Some(join_chain(&error))),
        }
    }

    /// Runs a call with the opened volume. Without a volume to load there is no object.
    fn with<T: Default>(
        &self,
        name: &str,
        call: impl FnOnce(&OpenVolume) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let opened = self.look(&mut self.lock()).map_err(|error| error.of_store("read", name))?;
        let Some(volume) = opened else { return Ok(T::default()) };
        call(&volume).map_err(|error| volume.named(error).of_store("read", name))
    }
}

fn write_report(report: &Path, loaded: &Loaded) -> Result<(), VolumeError> {
    let folder = match report.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = report.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        VolumeError::file("write", report)(std::io::Error::other("it is no name of a file"))
    })?;
    disk::write_text(folder, name, &loaded.to_text()).map_err(VolumeError::file("write", report))
}

fn unsupported(name: &str) -> StoreError {
    let source = std::io::Error::new(std::io::ErrorKind::Unsupported, "a volume is only read here");
    StoreError::call("store", name)(source)
}

impl Store for VolumeSource {
    fn create(&self, name: &str, _: &Path, _: &SegmentIdentity) -> Result<Created, StoreError> {
        Err(unsupported(name))
    }

    fn replace(&self, name: &str, _: &Path, _: &SegmentIdentity) -> Result<(), StoreError> {
        Err(unsupported(name))
    }

    /// Keeps an answer for the web machine. It is written when the volume is done.
    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let mut answers = self.lock();
        match ObjectName::parse(name) {
            Some(ObjectName::Position { sink, log }) => {
                let Some(answer) = PositionAnswer::parse(text) else { return Err(unsupported(name)) };
                answers.positions.insert((sink, log), answer);
            }
            Some(ObjectName::Want { log, first }) => drop(answers.wanted.insert((log, first))),
            _ => return Err(unsupported(name)),
        }
        self.look(&mut answers).map(drop).map_err(|error| error.of_store("store", name))
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        self.with(name, |volume| {
            let Some(_) = volume.file.segment(name) else { return Ok(None) };
            volume.store(&self.pacer).head(name)
        })
    }

    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError> {
        let carried = self.with(name, |volume| match volume.file.listed.get(name) {
            Some(Listed::Text) => volume.store(&self.pacer).text(name, bytes_max),
            _ => Ok(None),
        })?;
        let is_wanted = match ObjectName::parse(name) {
            Some(ObjectName::Want { log, first }) => self.lock().wanted.contains(&(log, first)),
            _ => false,
        };
        Ok(carried.or_else(|| is_wanted.then(|| WantAnswer::Wanted.to_text().to_owned())))
    }

    fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError> {
        self.with(name, |volume| {
            let Some(_) = volume.file.segment(name) else { return Ok(None) };
            volume.store(&self.pacer).fetch(name, file, bytes_max)
        })
    }

    /// Deletes nothing. Only the web machine empties a volume.
    fn remove(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.with(prefix, |volume| Ok(names_after(volume.file.listed.keys(), prefix, after)))
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.with(prefix, |volume| Ok(folders_of(volume.file.listed.keys(), prefix)))
    }
}
