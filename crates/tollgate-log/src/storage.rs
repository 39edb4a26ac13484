//! The file system as the log needs it: a small trait, and the real file system. Tests implement the trait
//! with a disk that can crash after any call.

use std::any::Any;
use std::fs::{self, DirBuilder, File, FileType, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, OFlags, RenameFlags, SeekFrom, renameat_with};
use rustix::io::Errno;

use crate::descriptors::{Refill, keep, opened};
use crate::error::LogError;

/// Permissions of a new folder, before the umask. Users outside the group get no access.
pub const FOLDER_MODE: u32 = 0o750;
/// Permissions of a new file, before the umask. Users outside the group get no access.
pub const FILE_MODE: u32 = 0o640;

/// A lock on a file, which is held until this value is dropped.
pub type StorageLock = Box<dyn Any + Send + Sync>;

/// The calls that the log makes on a file system.
pub trait Storage: Send + Sync {
    /// Creates a folder and its missing parents.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Returns whether this path is a folder.
    fn is_folder(&self, path: &Path) -> bool;
    /// Returns the names in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Creates a new, empty file. Fails if the file exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;
    /// Opens a file to read, write, cut and sync it. Refuses a link, a folder, a FIFO and a device. The call
    /// never waits for the other end of a FIFO.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;
    /// Opens a file to read it. Refuses the same kinds of files as [`Self::open`].
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;
    /// Renames a file within its folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Unlinks a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Syncs a folder, so that the names in it are on disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Takes the lock on a file, and creates the file if it is missing. Returns `None` if another process
    /// holds the lock.
    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>>;
    /// Returns the free space on the file system of a folder.
    fn space(&self, folder: &Path) -> io::Result<Space>;
    /// Returns whether the file system of a folder is one that overwrites bytes in place.
    ///
    /// On such a file system, a sync of bytes within the file has to write no size and no block address. This
    /// halves the duration of a sync.
    fn writes_in_place(&self, folder: &Path) -> bool;
}

/// Space on a file system, as it is available to a user without privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the whole file system.
    pub total_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Number of files that can still be created, or `u64::MAX` on a file system that reports no limit.
    pub free_inodes: u64,
}

/// The calls that the log makes on one file.
pub trait StorageFile: Send + Sync {
    /// Writes all bytes at an offset, in several calls if a write is short. After an error, any of the bytes
    /// may be written.
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()>;
    /// Reads at an offset until `buffer` is full or the file ends. Returns the count of bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Returns the size of the file in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Cuts the file to `size` bytes.
    fn truncate(&self, size: u64) -> io::Result<()>;
    /// Syncs the bytes to disk (fdatasync).
    fn sync(&self) -> io::Result<()>;
    /// Drops the cached pages of the file, so that the next read reads from the disk.
    fn drop_cache(&self) -> io::Result<()>;

    /// Returns the offset of the first stored byte at or after an offset. Returns `None` if only a hole
    /// follows. A hole is a range of a sparse file that has no blocks on disk and reads as zeros.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Returns the stored ranges of the file between two offsets, in order.
    fn data_extents(&self, from: u64, end: u64) -> io::Result<Vec<Range<u64>>> {
        Ok((from < end).then_some(from..end).into_iter().collect())
    }
}

/// The file system of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskStorage;

impl Storage for DiskStorage {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let _refill = Refill;
        let names = opened(|| fs::read_dir(folder))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        DiskFile::opened(path, options.read(true).write(true).create_new(true).mode(FILE_MODE))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        DiskFile::opened(path, OpenOptions::new().read(true).write(true))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        DiskFile::opened(path, OpenOptions::new().read(true))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let _refill = Refill;
        opened(|| File::open(path))?.sync_all()
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        keep();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = open_regular(path, &mut options)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        let found = rustix::fs::statvfs(folder)?;
        Ok(Space {
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            // btrfs does not count inodes, and reports zero as their total and free number.
            free_inodes: if found.f_files == 0 { u64::MAX } else { found.f_favail },
        })
    }

    fn writes_in_place(&self, folder: &Path) -> bool {
        rustix::fs::statfs(folder).is_ok_and(|found| IN_PLACE.contains(&(found.f_type as u64)))
    }
}

/// Magic numbers (statfs(2)) of ext4 and XFS, where measurements show that a runway helps. The number of
/// btrfs is absent, because btrfs copies on write.
const IN_PLACE: [u64; 2] = [0xef53, 0x5846_5342];

/// Renames a file, only if the new name is free (renameat2(2) with `RENAME_NOREPLACE`).
///
/// # Errors
/// The new name exists, or the folder cannot be written.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // NFS and several FUSE file systems do not support the flag. There, a hard link has the same effect.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}

/// Creates a folder and its missing parents. Their names are on disk when this function returns.
///
/// Each level is synced before the next is created. The lowest existing level is synced too, because the run
/// that created it may have ended before its sync. If this process has no permission to open the parent, the
/// sync is skipped: this user cannot have created a folder there.
///
/// # Errors
/// A folder cannot be created or synced.
pub fn make_folder(storage: &dyn Storage, path: &Path) -> Result<(), LogError> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !storage.is_folder(path);
    let mut missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    if let Some(existing) = path.ancestors().nth(missing.len()) {
        match sync_name(storage, existing) {
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {}
            result => result?,
        }
    }
    while let Some(folder) = missing.pop() {
        storage.create_folder(folder).map_err(LogError::io("create", folder))?;
        sync_name(storage, folder)?;
    }
    Ok(())
}

/// Syncs the parent of a folder, because the parent contains the folder's name.
fn sync_name(storage: &dyn Storage, folder: &Path) -> Result<(), LogError> {
    let Some(above) = folder.parent() else { return Ok(()) };
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    storage.sync_folder(above).map_err(LogError::io("sync", above))
}

/// Opens a regular file, and refuses any other kind of file.
///
/// Any process that can write to the folder can create a FIFO or a device there with the name of a segment.
/// The type is checked before the file is opened, because opening a device can have effects. The file is
/// opened without following a link and without waiting. Its type is then checked again, because the file may
/// have been replaced in between.
fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(found) => check_regular(found.file_type())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    let file = opened(|| options.open(path))?;
    check_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn check_regular(found: FileType) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let what = if found.is_symlink() {
        "a symbolic link"
    } else if found.is_dir() {
        "a folder"
    } else if found.is_fifo() {
        "a FIFO"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the file is {what}, allowed is a regular file")))
}

struct DiskFile {
    file: File,
    /// Guard that reserves descriptors when it is dropped. It is declared after the file, so that the file is
    /// closed first.
    _refill: Refill,
}

impl DiskFile {
    fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<Arc<dyn StorageFile>> {
        let file = open_regular(path, options)?;
        Ok(Arc::new(Self { file, _refill: Refill }))
    }
}

impl StorageFile for DiskFile {
    fn write_at(&self, mut offset: u64, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        while slices.iter().any(|slice| !slice.is_empty()) {
            match rustix::io::pwritev(&self.file, &slices[..slices.len().min(IO_SLICES_MAX)], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut slices, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn drop_cache(&self) -> io::Result<()> {
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed).map_err(io::Error::from)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        seek(&self.file, SeekFrom::Data(offset))
    }

    fn data_extents(&self, from: u64, end: u64) -> io::Result<Vec<Range<u64>>> {
        let mut extents = Vec::new();
        let mut at = from;
        while at < end
            && let Some(start) = self.next_data(at)?.filter(|start| *start < end)
        {
            if extents.len() == EXTENTS_MAX {
                extents.push(start..end);
                break;
            }
            // The end of a file counts as a hole.
            at = seek(&self.file, SeekFrom::Hole(start))?.unwrap_or(end).max(start + 1);
            extents.push(start..at.min(end));
        }
        Ok(extents)
    }
}

/// Maximum number of stored ranges that are listed for a sparse file. All bytes after them count as one
/// range.
const EXTENTS_MAX: usize = 4_096;

/// Seeks data or a hole (lseek(2)). Returns `None` if none follows. The changed file offset of the descriptor
/// does no harm, because reads and writes pass their own offsets.
fn seek(file: &File, to: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, to) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Maximum number of slices in one call: IOV_MAX of Linux.
const IO_SLICES_MAX: usize = 1024;
