//! Digests of sent content. Short content is digested at once. A thread digests longer content while its
//! requests wait.
//!
//! Each digest is computed once for a version of a file, and cached.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use sha2::{Digest, Sha256, Sha512};
use tokio::sync::watch;
use tollgate_http::{DigestAlgorithm, RequestHead, named_tags, names_tag};

use crate::digest::{CONTENT_DIGEST, DIGESTED_BYTES_MAX, digest_of, field_value};
use crate::disk_jobs::DiskJobs;
use crate::file_slice::FileSlice;
use crate::pending_read::{ReadOutcome, ReadWait};
use crate::reply::FileReply;
use crate::representation::{Heads, Representation, tag_of_content};
use crate::source::{CONTENT_BYTES_MAX, Content};
use crate::stamp::Stamp;
use crate::two_generation_cache::TwoGenerationCache;

/// Maximum length of a part of a file whose own digest is computed, in bytes. Digests of parts are not
/// cached, so each request computes them again.
const PART_BYTES_MAX: u64 = 16 << 20;
/// Number of attempts to digest a file whose metadata changes during the read. A replacement of the file
/// changes the metadata once.
const DIGESTINGS_MAX: usize = 4;
/// Maximum size of the cached digests, in bytes.
const KNOWN_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Digests {
    known: RefCell<TwoGenerationCache<Key, Bytes>>,
    /// Digests that are being computed. A channel closes when the computation of its digest ends. The permits
    /// for disk work bound the number of these digests.
    under_way: RefCell<HashMap<Key, watch::Receiver<()>>>,
    work: Rc<DiskJobs>,
}

/// Key of a digest: the file, the coding of the content, and the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    stamp: Stamp,
    /// The content coding, and the length of the encoded content in bytes.
    form: (Option<&'static str>, u64),
    algorithm: DigestAlgorithm,
}

/// Whether a condition of a request names the tag of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Yes,
    Not,
    /// A condition names a tag, and the tag of this representation is not yet known.
    Maybe,
}

/// State of a digest.
pub(crate) enum Known {
    Digest(Bytes),
    /// A thread must compute the digest.
    NotYet,
    /// The content is too long for a digest.
    Never,
}

impl Digests {
    pub(crate) fn new(work: Rc<DiskJobs>) -> Self {
        Self {
            known: RefCell::new(TwoGenerationCache::new(KNOWN_BYTES_MAX)),
            under_way: RefCell::default(),
            work,
        }
    }

    /// Returns the digest of a representation if it is cached, or if the content is short enough to digest at
    /// once.
    pub(crate) fn find(&self, one: &Representation, algorithm: DigestAlgorithm) -> Known {
        if one.len() > DIGESTED_BYTES_MAX {
            return Known::Never;
        }
        let key = key(one, algorithm);
        if let Some(digest) = self.known.borrow_mut().get(&key) {
            return Known::Digest(digest);
        }
        match &one.content {
            Content::Memory(content) if content.len() as u64 <= CONTENT_BYTES_MAX => {
                let digest = digest_of(algorithm, content);
                self.remember(key, &digest);
                Known::Digest(digest)
            }
            Content::Memory(_) | Content::File(_) => Known::NotYet,
        }
    }

    /// Computes a digest on a thread. Requests for the same digest wait for one computation.
    pub(crate) fn make(self: &Rc<Self>, one: &Rc<Representation>, algorithm: DigestAlgorithm) -> ReadWait {
        let (digests, one) = (self.clone(), one.clone());
        Box::pin(async move {
            if digests.bring(&one, algorithm).await {
                ReadOutcome::Digested(one)
            } else {
                ReadOutcome::Failed
            }
        })
    }

    /// Computes a digest. Returns false if the content cannot be read, or changed during the read.
    async fn bring(self: &Rc<Self>, one: &Rc<Representation>, algorithm: DigestAlgorithm) -> bool {
        let key = key(one, algorithm);
        let mut ending = match self.ending(key) {
            Some(ending) => ending,
            None => {
                let place = self.work.wait().await;
                // Another request may have begun the same computation during the wait.
                match self.ending(key) {
                    Some(ending) => ending,
                    None if self.is_known(key) => return true,
                    None => self.begin(key, one, algorithm, place),
                }
            }
        };
        // The channel carries no values, and closes when the computation ends.
        let _ended = ending.changed().await;
        self.is_known(key)
    }

    fn begin(
        self: &Rc<Self>,
        key: Key,
        one: &Rc<Representation>,
        algorithm: DigestAlgorithm,
        place: crate::disk_jobs::DiskJobPermit,
    ) -> watch::Receiver<()> {
        let (end, ending) = watch::channel(());
        self.under_way.borrow_mut().insert(key, ending.clone());
        let (digests, content, stamp) = (self.clone(), one.content.clone(), one.stamp);
        tokio::task::spawn_local(async move {
            let made = DiskJobs::run(place, move || digest_of_file(algorithm, &content, &stamp)).await;
            digests.under_way.borrow_mut().remove(&key);
            match made {
                Some(Ok(digest)) => digests.remember(key, &digest),
                Some(Err(error)) => tracing::debug!(%error, "cannot read a file to digest it"),
                None => {}
            }
            drop(end);
        });
        ending
    }

    /// Adds the digest of the content of a reply that is a part of a representation.
    ///
    /// # Errors
    /// The work of a thread that must first compute the digest. The error is not a failure, because the
    /// result of the work has the reply.
    pub(crate) fn add_to(
        &self,
        mut reply: FileReply,
        algorithm: DigestAlgorithm,
    ) -> Result<FileReply, ReadWait> {
        if reply.content_bytes() > PART_BYTES_MAX {
            return Ok(reply);
        }
        if reply.parts.is_empty() && reply.content.len() as u64 <= CONTENT_BYTES_MAX {
            reply.push(CONTENT_DIGEST, field_value(algorithm, &digest_of(algorithm, &reply.content)));
            return Ok(reply);
        }
        let work = self.work.clone();
        let pieces = pieces_of(&reply);
        Err(Box::pin(async move {
            let place = work.wait().await;
            let made = DiskJobs::run(place, move || digest_of_pieces(algorithm, &pieces)).await;
            if let Some(Ok(digest)) = made {
                reply.push(CONTENT_DIGEST, field_value(algorithm, &digest));
            }
            ReadOutcome::Reply(reply.into())
        }))
    }

    fn ending(&self, key: Key) -> Option<watch::Receiver<()>> {
        self.under_way.borrow().get(&key).cloned()
    }

    fn is_known(&self, key: Key) -> bool {
        self.known.borrow_mut().get(&key).is_some()
    }

    fn remember(&self, key: Key, digest: &Bytes) {
        self.known.borrow_mut().insert(key, digest.clone(), digest.len());
    }
}

fn key(one: &Representation, algorithm: DigestAlgorithm) -> Key {
    Key { stamp: one.stamp, form: (one.coding(), one.len()), algorithm }
}

impl Representation {
    /// Returns the heads. Missing heads are created here if the digest of the content is known.
    pub(crate) fn heads_by(&self, digests: &Digests) -> Option<&Heads> {
        if let Some(heads) = self.heads() {
            return Some(heads);
        }
        match digests.find(self, DigestAlgorithm::Sha256) {
            Known::Digest(sha256) => Some(self.set_etag(tag_of_content(&sha256, self.coding()))),
            Known::NotYet | Known::Never => None,
        }
    }

    /// Returns whether a condition of a request names the tag of this representation.
    pub(crate) fn is_named(&self, head: &RequestHead, digests: &Digests) -> Named {
        match self.heads_by(digests) {
            Some(heads) if names_tag(head, heads.etag()) => Named::Yes,
            None if named_tags(head).next().is_some() => Named::Maybe,
            Some(_) | None => Named::Not,
        }
    }
}

enum Piece {
    Bytes(Bytes),
    File(FileSlice),
}

fn pieces_of(reply: &FileReply) -> Vec<Piece> {
    let first = Piece::Bytes(reply.content.clone());
    let parts = reply.parts.iter();
    let parts = parts.flat_map(|part| [Piece::File(part.slice.clone()), Piece::Bytes(part.then.clone())]);
    std::iter::once(first).chain(parts).collect()
}

fn digest_of_file(algorithm: DigestAlgorithm, content: &Content, stamp: &Stamp) -> io::Result<Bytes> {
    let sent = match content {
        Content::Memory(content) => return Ok(digest_of(algorithm, content)),
        Content::File(sent) => sent,
    };
    let slice = FileSlice { file: sent.clone(), offset: 0, len: stamp.len };
    let pieces = [Piece::File(slice)];
    for _ in 0..DIGESTINGS_MAX {
        let Some(before) = stamp.of_this_version(&sent.file) else { break };
        let digest = digest_of_pieces(algorithm, &pieces)?;
        if before.is_that_of(&sent.file) {
            return Ok(digest);
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

fn digest_of_pieces(algorithm: DigestAlgorithm, pieces: &[Piece]) -> io::Result<Bytes> {
    match algorithm {
        DigestAlgorithm::Sha256 => walk::<Sha256>(pieces),
        DigestAlgorithm::Sha512 => walk::<Sha512>(pieces),
    }
}

fn walk<D: Digest>(pieces: &[Piece]) -> io::Result<Bytes> {
    let mut digest = D::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => digest.update(bytes),
            Piece::File(slice) => slice.read_through(|bytes| digest.update(bytes))?,
        }
    }
    Ok(digest.finalize().to_vec().into())
}
