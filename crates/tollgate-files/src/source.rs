//! A file that is open, and its content: what is small is read into memory, of the rest the descriptor is
//! kept.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use crate::file_slice::{Passage, SentFile, read_at_once};
use crate::lookup_context::LookupContext;
use crate::opened::{OpenError, Opened};
use crate::options::FilesSpec;
use crate::root::Root;
use crate::stamp::Stamp;

/// Files up to this length are held in memory and leave with the head in one write. Such a write costs more
/// than sendfile for longer files (`bench/study.py downloads`).
pub(crate) const CONTENT_BYTES_MAX: u64 = 16 << 10;

/// How often a file is read that changes meanwhile.
const READS_MAX: usize = 4;

/// A file that is open, and what it is.
pub(crate) struct Source {
    pub(crate) file: File,
    pub(crate) stamp: Stamp,
    pub(crate) coding: Option<&'static str>,
}

#[derive(Clone)]
pub(crate) enum Content {
    Memory(Bytes),
    File(Arc<SentFile>),
}

impl Source {
    pub(crate) fn open(
        path: &str,
        root: &Root,
        coding: Option<&'static str>,
        look: LookupContext<'_>,
    ) -> Result<Option<Self>, OpenError> {
        match root.open(path, look)? {
            Opened::File(file, stamp) => {
                Ok(Some(Self { file, stamp: stamp.looked_at(look.wall_us), coding }))
            }
            Opened::Folder(_) => Ok(None),
        }
    }

    /// The content, if it is small and there at once, the file, else; and the stamp that belongs to it. None:
    /// it changed whenever it was read.
    ///
    /// It is a change of a file, too, that another takes its place: it loses its name. So the open file is
    /// read again, and not what is at the path, which may be another each time.
    pub(crate) fn content(self, spec: &FilesSpec, look: LookupContext<'_>) -> Option<(Stamp, Content)> {
        let Self { file, mut stamp, .. } = self;
        for _ in 0..READS_MAX {
            // A worker does not wait for the disk: what is not all there is sent as larger files are.
            let content = if stamp.len > CONTENT_BYTES_MAX { None } else { read_at_once(&file, stamp.len) };
            let then = if stamp.len > CONTENT_BYTES_MAX { stamp } else { Stamp::now(&file, look.wall_us)? };
            if then == stamp {
                let sent = || Content::File(Arc::new(SentFile::new(file, stamp.len, passage(spec))));
                return Some((stamp, content.map_or_else(sent, Content::Memory)));
            }
            stamp = then;
        }
        None
    }
}

impl Content {
    /// Reads all of it, and waits for the disk: for threads that may.
    ///
    /// # Errors
    /// It cannot be read, or is not what it was.
    pub(crate) fn read(&self, stamp: &Stamp) -> io::Result<Bytes> {
        match self {
            Self::Memory(content) => Ok(content.clone()),
            Self::File(sent) => {
                let mut content = vec![0; usize::try_from(stamp.len).unwrap_or(usize::MAX)];
                sent.file.read_exact_at(&mut content, 0)?;
                if stamp.is_that_of(&sent.file) {
                    Ok(content.into())
                } else {
                    Err(io::ErrorKind::Other.into())
                }
            }
        }
    }
}

/// Returns how the content of a file is sent.
fn passage(spec: &FilesSpec) -> Passage {
    if spec.sendfile { Passage::System } else { Passage::Copy }
}
