//! A disk whose writes or syncs hang until the test releases them. All other calls go to the real file
//! system.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use tollgate_log::{DiskStorage, Space, Storage, StorageFile, StorageLock};

/// The calls that hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stall {
    None,
    Syncs,
    Writes,
}

#[derive(Clone)]
pub(crate) struct StallingDisk(Arc<(Mutex<Stall>, Condvar)>);

impl StallingDisk {
    pub(crate) fn new() -> Self {
        Self(Arc::new((Mutex::new(Stall::None), Condvar::new())))
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    /// Makes only these calls hang from now on.
    pub(crate) fn stall(&self, stall: Stall) {
        *self.0.0.lock().unwrap() = stall;
        self.0.1.notify_all();
    }

    fn pass(&self, call: Stall) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |stall| *stall == call).unwrap());
    }

    fn file(&self, file: io::Result<Arc<dyn StorageFile>>) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(StallingFile { disk: self.clone(), file: file? }))
    }
}

impl Storage for StallingDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        DiskStorage.create_folder(path)
    }

    fn is_folder(&self, path: &Path) -> bool {
        DiskStorage.is_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        DiskStorage.list(folder)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(DiskStorage.create(path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(DiskStorage.open(path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(DiskStorage.open_read(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        DiskStorage.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        DiskStorage.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        DiskStorage.remove_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        DiskStorage.sync_folder(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        DiskStorage.try_lock(path)
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        DiskStorage.space(folder)
    }

    fn writes_in_place(&self, folder: &Path) -> bool {
        DiskStorage.writes_in_place(folder)
    }
}

struct StallingFile {
    disk: StallingDisk,
    file: Arc<dyn StorageFile>,
}

impl StorageFile for StallingFile {
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.disk.pass(Stall::Writes);
        self.file.write_at(offset, slices)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.pass(Stall::Syncs);
        self.file.sync()
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.file.drop_cache()
    }
}
