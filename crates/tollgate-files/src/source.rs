//! An open file and its content. Small content is read into memory. For larger content the descriptor stays
//! open.

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

/// Maximum size of a file that is held in memory and sent with the head in one write. For a larger file,
/// sendfile costs less than such a write (`bench/study.py downloads`).
pub(crate) const CONTENT_BYTES_MAX: u64 = 16 << 10;

/// Maximum number of attempts to read a file that changes during the read.
const READS_MAX: usize = 4;

/// An open file, its stamp and its coding.
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

    /// Returns the stamp and the content. Small content that is in memory is copied. In any other case the
    /// open file is the content.
    ///
    /// `None` means that the file changed during every read. A replacement is also a change, because the old
    /// file loses its name. Each attempt reads the open file, because each new lookup of the path might find
    /// another file.
    pub(crate) fn content(self, spec: &FilesSpec, look: LookupContext<'_>) -> Option<(Stamp, Content)> {
        let Self { file, mut stamp, .. } = self;
        for _ in 0..READS_MAX {
            // A worker does not wait for the disk. A file that is only partly in memory is therefore sent
            // like a larger file.
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
    /// Reads the whole content, and waits for the disk. Only threads that may wait call this.
    ///
    /// # Errors
    /// The content cannot be read, or the file changed.
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
