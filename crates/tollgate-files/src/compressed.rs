//! Representations that the server compresses. Each is created once for a version of a file and a coding, and
//! cached within a limit.
//!
//! No request waits for compression. The first request gets another representation, and starts the
//! compression that later requests profit from.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::compress::{Coding, SOURCE_BYTES, is_compressible};
use crate::disk_jobs::DiskJobs;
use crate::options::FilesSpec;
use crate::representation::Representation;
use crate::source::Content;
use crate::stamp::Stamp;
use crate::two_generation_cache::TwoGenerationCache;

pub(crate) struct CompressedFiles {
    known: RefCell<TwoGenerationCache<Key, State>>,
    /// Maximum size of files that are compressed. `None` if compression is off.
    source_bytes_max: Option<u64>,
    work: Rc<DiskJobs>,
}

/// A version of a file with its media type. Several names of one file may have different types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    stamp: Stamp,
    coding: Coding,
    content_type: Box<str>,
}

#[derive(Clone)]
enum State {
    UnderWay,
    /// The compressed content would not be much shorter.
    Useless,
    Ready(Rc<Representation>),
}

/// Compressed content and its digest.
struct Compressed {
    content: Bytes,
    sha256: [u8; 32],
}

impl CompressedFiles {
    pub(crate) fn new(spec: &FilesSpec, work: Rc<DiskJobs>) -> Self {
        let bytes_max = spec.compress_cache_bytes_max;
        // The limit on the file size ensures that the compressed content fits into the cache.
        let source_bytes_max = spec.compress.then_some((bytes_max / 4).min(*SOURCE_BYTES.end()));
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        Self { known: RefCell::new(TwoGenerationCache::new(bytes_max)), source_bytes_max, work }
    }

    /// Returns whether files of this type and length are compressed.
    pub(crate) fn takes(&self, content_type: &str, len: u64) -> bool {
        let is_sized = |max| (*SOURCE_BYTES.start()..=max).contains(&len);
        self.source_bytes_max.is_some_and(is_sized) && is_compressible(content_type)
    }

    /// Returns the compressed representation of a file if it is ready. If the representation is not ready,
    /// compression starts, unless too many jobs are running.
    pub(crate) fn get(
        self: &Rc<Self>,
        plain: &Rc<Representation>,
        coding: Coding,
    ) -> Option<Rc<Representation>> {
        let known = self.known.borrow_mut().get(&Key::of(plain, coding));
        match known {
            Some(State::Ready(one)) if one.is_of(plain) => Some(one),
            Some(State::UnderWay | State::Useless) => None,
            Some(State::Ready(_)) | None => {
                self.begin(plain.clone(), coding);
                None
            }
        }
    }

    fn begin(self: &Rc<Self>, plain: Rc<Representation>, coding: Coding) {
        let Some(place) = self.work.place() else { return };
        let key = Key::of(&plain, coding);
        self.known.borrow_mut().insert(key.clone(), State::UnderWay, 0);
        let (content, stamp) = (plain.content.clone(), plain.stamp);
        let made = self.clone();
        tokio::task::spawn_local(async move {
            let compressed = DiskJobs::run(place, move || compress(&content, &stamp, coding)).await;
            let mut known = made.known.borrow_mut();
            match compressed {
                Some(Ok(Some(Compressed { content, sha256 }))) => {
                    let bytes = content.len();
                    let one = Representation::made(&plain, coding, content, &sha256);
                    known.insert(key, State::Ready(Rc::new(one)), bytes);
                }
                Some(Ok(None)) => known.insert(key, State::Useless, 0),
                Some(Err(error)) => {
                    tracing::debug!(%error, "cannot read a file to compress it");
                    known.remove(&key);
                }
                None => known.remove(&key),
            }
        });
    }
}

impl Key {
    fn of(plain: &Representation, coding: Coding) -> Self {
        Self { stamp: plain.stamp, coding, content_type: plain.content_type().into() }
    }
}

/// Compresses the content.
///
/// # Errors
/// The content cannot be read, or changed during the read.
fn compress(content: &Content, stamp: &Stamp, coding: Coding) -> std::io::Result<Option<Compressed>> {
    let content = content.read(stamp)?;
    Ok(coding.compress(&content).map(|compressed| Compressed {
        sha256: Sha256::digest(&compressed).into(),
        content: compressed.into(),
    }))
}
