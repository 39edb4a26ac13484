//! The files of scripts: their content on disk now, or the content that an earlier VM read.
//!
//! A changed file takes effect at the next reload, in all workers together.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Source of files.
pub(crate) enum Disk {
    /// Reads the files that are on disk now.
    Now(Rc<Read>),
    /// Returns the files that an earlier VM read. Reads only further files from disk.
    Before(Rc<Read>),
}

/// Files and names that were read from disk.
#[derive(Default)]
pub(crate) struct Read {
    /// Resolved paths of the given folders and files. `modules` has the path of each module by root and name.
    paths: RefCell<HashMap<PathBuf, PathBuf>>,
    modules: RefCell<HashMap<(PathBuf, String), PathBuf>>,
    texts: RefCell<HashMap<PathBuf, Rc<[u8]>>>,
}

impl Default for Disk {
    fn default() -> Self {
        Self::Now(Rc::default())
    }
}

impl Disk {
    /// Returns a disk that repeats the reads of this disk.
    pub(crate) fn same(&self) -> Self {
        Self::Before(Rc::clone(self.read()))
    }

    fn read(&self) -> &Rc<Read> {
        match self {
            Self::Now(read) | Self::Before(read) => read,
        }
    }

    /// Returns the result of an earlier read for a key, if this disk repeats earlier reads.
    fn known<K: Hash + Eq + ?Sized, O: Borrow<K> + Hash + Eq, V: Clone>(
        &self,
        of: impl FnOnce(&Read) -> &RefCell<HashMap<O, V>>,
        key: &K,
    ) -> Option<V> {
        match self {
            Self::Now(_) => None,
            Self::Before(read) => of(read).borrow().get(key).cloned(),
        }
    }

    /// Resolves the name of a folder or a file.
    pub(crate) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        if let Some(known) = self.known(|read| &read.paths, path) {
            return Ok(known);
        }
        let found = fs::canonicalize(path)?;
        self.read().paths.borrow_mut().insert(path.to_path_buf(), found.clone());
        Ok(found)
    }

    /// Returns the path of the module that `name` means below `root`. `find` looks for the module on disk.
    pub(crate) fn module(
        &self,
        root: &Path,
        name: &str,
        find: impl FnOnce() -> Result<PathBuf, String>,
    ) -> Result<PathBuf, String> {
        let key = (root.to_path_buf(), name.to_owned());
        if let Some(known) = self.known(|read| &read.modules, &key) {
            return Ok(known);
        }
        let found = find()?;
        self.read().modules.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    /// Returns the length of a resolved file in bytes.
    pub(crate) fn bytes_len(&self, path: &Path) -> io::Result<u64> {
        match self.known(|read| &read.texts, path) {
            Some(text) => Ok(text.len() as u64),
            None => fs::metadata(path).map(|metadata| metadata.len()),
        }
    }

    /// Returns the text of a resolved file.
    pub(crate) fn text(&self, path: &Path) -> io::Result<Rc<[u8]>> {
        if let Some(known) = self.known(|read| &read.texts, path) {
            return Ok(known);
        }
        let text: Rc<[u8]> = fs::read(path)?.into();
        self.read().texts.borrow_mut().insert(path.to_path_buf(), Rc::clone(&text));
        Ok(text)
    }
}
