//! Files that scripts save. Each file is written under a temporary name in its folder, and then renamed.
//!
//! `openat2` opens each path, so the kernel ensures that the path stays beneath the folder of uploads.
//! Threads do this work, because it waits for the disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, fstatvfs, fsync, open, openat, openat2, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::form_parts::PartReader;
use crate::stretch::{BodyReadError, STRETCH_BYTES, WorkStep};

/// A folder that scripts save files in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploads {
    /// The folder. Saved files are beneath this folder.
    pub dir: PathBuf,
    /// Number of bytes that must stay free on the disk of the folder.
    pub reserve_bytes: u64,
}

/// Options of a save.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaveOptions {
    pub(crate) overwrites: bool,
    /// Whether the file and its name are synced to disk before the save returns.
    pub(crate) syncs: bool,
}

/// Result of a save: the number of bytes, or the reason why the name is refused.
pub(crate) type Saved = Result<u64, String>;

/// A part that is being saved to a file.
pub(crate) struct Save {
    uploads: Uploads,
    name: Vec<u8>,
    options: SaveOptions,
    file: Option<Draft>,
}

/// A file under its temporary name. Dropping this value deletes the file unless it was renamed.
struct Draft {
    file: File,
    folder: OwnedFd,
    temporary: String,
    bytes: u64,
    state: DraftState,
}

#[derive(PartialEq, Eq)]
enum DraftState {
    Temporary,
    Renamed,
}

impl Save {
    pub(crate) fn new(uploads: &Uploads, name: Vec<u8>, options: SaveOptions) -> Self {
        Self { uploads: uploads.clone(), name, options, file: None }
    }

    /// Writes a stretch of the current part.
    pub(crate) fn go_on(&mut self, reader: &mut PartReader) -> WorkStep<Result<Saved, BodyReadError>> {
        match self.write(reader) {
            Ok(None) => WorkStep::More,
            Ok(Some(saved)) => WorkStep::Done(Ok(saved)),
            Err(fault) => {
                self.file = None;
                WorkStep::Done(Err(fault))
            }
        }
    }

    /// Writes the next `STRETCH_BYTES` of the part, or fewer at the end of the part. `None` means that more
    /// bytes follow.
    fn write(&mut self, reader: &mut PartReader) -> Result<Option<Saved>, BodyReadError> {
        let Ok(name) = str::from_utf8(&self.name) else {
            return Ok(Some(Err("the name is not UTF-8".to_owned())));
        };
        let draft = match &mut self.file {
            Some(draft) => draft,
            None => match Draft::begin(&self.uploads.dir, name, self.options) {
                Ok(draft) => self.file.insert(draft),
                Err(Refusal::Name(reason)) => return Ok(Some(Err(reason))),
                Err(Refusal::Disk(error)) => return Err(error.into()),
            },
        };
        check_room(&draft.folder, self.uploads.reserve_bytes)?;
        let until = draft.bytes + STRETCH_BYTES;
        while draft.bytes < until {
            let Some(chunk) = reader.chunk()? else {
                let saved = draft.rename(last_segment(name), self.options);
                self.file = None;
                return Ok(Some(saved?));
            };
            draft.file.write_all(&chunk).map_err(of_disk)?;
            draft.bytes += chunk.len() as u64;
        }
        Ok(None)
    }
}

enum Refusal {
    Name(String),
    Disk(io::Error),
}

impl Draft {
    fn begin(dir: &Path, name: &str, options: SaveOptions) -> Result<Self, Refusal> {
        let (above, last) = checked(name).map_err(Refusal::Name)?;
        let folder = folder_of(dir, above)?;
        if !options.overwrites && statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(Refusal::Name(EXISTS.to_owned()));
        }
        let random = getrandom::u64().map_err(|error| Refusal::Disk(io::Error::other(error)))?;
        let temporary = format!(".upload-{random:016x}");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, temporary.as_str(), flags, Mode::from_raw_mode(0o640));
        let file = File::from(file.map_err(|error| Refusal::Disk(error.into()))?);
        Ok(Self { file, folder, temporary, bytes: 0, state: DraftState::Temporary })
    }

    fn rename(&mut self, name: &str, options: SaveOptions) -> Result<Saved, BodyReadError> {
        if options.syncs {
            self.file.sync_all().map_err(of_disk)?;
        }
        let (folder, from) = (&self.folder, self.temporary.as_str());
        let renamed = match options.overwrites {
            true => renameat(folder, from, folder, name),
            false => renameat_with(folder, from, folder, name, RenameFlags::NOREPLACE),
        };
        match renamed {
            Ok(()) => self.state = DraftState::Renamed,
            Err(Errno::EXIST) => return Ok(Err(EXISTS.to_owned())),
            Err(Errno::ISDIR | Errno::NOTEMPTY) => return Ok(Err(FOLDER.to_owned())),
            Err(error) => return Err(of_disk(error.into())),
        }
        if options.syncs {
            fsync(folder).map_err(|error| of_disk(error.into()))?;
        }
        Ok(Ok(self.bytes))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.state == DraftState::Temporary
            && let Err(error) = unlinkat(&self.folder, self.temporary.as_str(), AtFlags::empty())
        {
            tracing::warn!(file = self.temporary, "cannot delete the file of an unfinished upload: {error}");
        }
    }
}

/// Opens the folder of a file. The folder must be beneath the folder of uploads.
fn folder_of(dir: &Path, above: &str) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(dir, flags, Mode::empty()).map_err(|error| Refusal::Disk(error.into()))?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    match openat2(&root, if above.is_empty() { "." } else { above }, flags, Mode::empty(), resolve) {
        Ok(folder) => Ok(folder),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG) => {
            Err(Refusal::Name(format!("there is no folder with the name \"{above}\"")))
        }
        Err(error) => Err(Refusal::Disk(error.into())),
    }
}

/// Returns the folder and the last segment of a name. Every segment must be a valid name that is not hidden.
fn checked(name: &str) -> Result<(&str, &str), String> {
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && !segment.starts_with('.')
            && segment.len() <= 255
            && !segment.contains(char::is_control)
    };
    if !name.split('/').all(is_segment) {
        let text = "the name is not allowed: a segment is empty, begins with a dot, exceeds 255 bytes, \
                    or has control characters";
        return Err(text.to_owned());
    }
    Ok(name.rsplit_once('/').unwrap_or(("", name)))
}

fn last_segment(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

/// Returns an error if the disk has less free space than the reserve and one more stretch.
fn check_room(folder: &OwnedFd, reserve_bytes: u64) -> Result<(), BodyReadError> {
    let space = fstatvfs(folder).map_err(io::Error::from)?;
    if space.f_bavail.saturating_mul(space.f_frsize) < reserve_bytes.saturating_add(STRETCH_BYTES) {
        return Err(no_room());
    }
    Ok(())
}

fn of_disk(error: io::Error) -> BodyReadError {
    match Errno::from_io_error(&error) {
        Some(Errno::NOSPC | Errno::DQUOT) => no_room(),
        _ => BodyReadError::Disk(error),
    }
}

fn no_room() -> BodyReadError {
    BodyReadError::Client(503, "the disk of uploads is nearly full".to_owned())
}

const EXISTS: &str = "a file with this name exists";
const FOLDER: &str = "a folder with this name exists";
