//! A file as it is served: itself, and what lies beside it in other codings. Each is a representation of its own, with its own
//! validators and head lines, made once and shared by all replies until the file is another.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use tollgate_http::{RequestHead, Validators, accepted_coding, http_date, push_field};
use tollgate_script::Request;

use super::compress::Coding;
use super::digests::DIGESTED_BYTES_MAX;
use super::errand::{Errand, may_wait};
use super::made::Made;
use super::media::{content_type, for_type};
use super::root::{OpenError, Opened, Root, Stamp};
use super::spec::{Etag, FilesSpec};
use crate::file_slice::{SentFile, read_in_memory};

/// Files up to here are held in memory, and leave with the head by one write: more costs less by sendfile (`bench/downloads.py`).
pub(super) const CONTENT_BYTES_MAX: u64 = 16 << 10;
/// How often a file is read that changes meanwhile.
const READS_MAX: usize = 4;
/// Codings, best first, each with what its files have behind their names.
pub(super) const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// A file and its precompressed variants.
#[derive(Clone)]
pub(super) struct Resource {
    plain: Rc<Representation>,
    coded: Rc<[Rc<Representation>]>,
    /// Whether it is compressed here, too.
    is_compressed: bool,
}

/// One file as it is sent.
pub(super) struct Representation {
    pub(super) content: Content,
    /// Of the content, in bytes.
    len: u64,
    /// Where it begins in the file, if that is one.
    base: u64,
    /// Of the file that it is, or is made of.
    pub(super) stamp: Stamp,
    /// None while that lies ahead of our clock (RFC 9110 section 8.8.2.1).
    modified_s: Option<u64>,
    coding: Option<&'static str>,
    common: Rc<Common>,
    /// Made when the tag is known.
    heads: OnceCell<Heads>,
}

/// What its replies say.
pub(super) struct Heads {
    /// Empty: there is none.
    etag: String,
    /// The lines of a reply with content, of one with several parts of it, which tell its type themselves, and of one without
    /// content that says the same (RFC 9110 section 15.4.5).
    pub(super) lines: Bytes,
    pub(super) lines_of_parts: Bytes,
    pub(super) lines_without_content: Bytes,
}

#[derive(Clone)]
pub(super) enum Content {
    Memory(Bytes),
    File(Arc<SentFile>),
}

/// What representations of one path share.
#[derive(PartialEq, Eq)]
pub(super) struct Common {
    content_type: String,
    /// The lines that replies with and without content have.
    lines: Vec<u8>,
    /// How long it stays fresh, if replies say until when.
    fresh_s: Option<u32>,
    etag: Etag,
}

/// A file that is open, and what it is.
struct Source {
    file: File,
    stamp: Stamp,
    coding: Option<&'static str>,
}

/// How files are looked at for a request.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    /// When: by the clock of ages, and for the dates in replies in seconds since 1970.
    pub(super) at: Instant,
    pub(super) wall_s: u64,
    /// What the request waited for so far. None: it does not wait.
    errand: Option<&'a Errand>,
    is_patient: bool,
}

impl<'a> Look<'a> {
    pub(super) fn of(request: &Request, begun: Instant, errand: Option<&'a Errand>) -> Self {
        let wall_s = u64::try_from(request.time_us / 1_000_000).unwrap_or_default();
        Self { at: begun, wall_s, errand, is_patient: may_wait(errand) }
    }

    /// The same for who does not wait any more: the worker opens what it has to.
    pub(super) fn at_once(self) -> Self {
        Self { is_patient: false, ..self }
    }

    /// The same for who looks once more: what was brought is not what is there any more.
    fn anew(self) -> Self {
        Self { errand: None, is_patient: false, ..self }
    }

    pub(super) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// What a thread found at a path.
    pub(super) fn brought(&self, path: &str) -> Option<Result<Opened, OpenError>> {
        self.errand.and_then(|errand| errand.brought(path))
    }
}

impl Resource {
    /// Opens a file and what lies beside it; what has not changed is taken from what was there before.
    ///
    /// # Errors
    /// It is no file. None: it is a folder.
    pub(super) fn open(
        path: &str,
        root: &Root,
        spec: &FilesSpec,
        made: &Made,
        before: Option<&Self>,
        look: Look<'_>,
    ) -> Result<Option<Self>, OpenError> {
        let looks = iter::once(look).chain(iter::repeat_n(look.anew(), READS_MAX - 1));
        for look in looks {
            let Some(plain) = Source::open(path, root, None, look)? else { return Ok(None) };
            let beside = if spec.precompressed { &CODINGS[..] } else { &[] };
            let coded = beside.iter().map(|(coding, end)| beside_of(&plain, coding, end, path, root, look));
            let coded: Vec<_> = coded.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            let content_type = content_type(path, spec);
            let is_compressed = made.takes(&content_type, plain.stamp.len);
            let common = Rc::new(Common::new(content_type, is_compressed || !coded.is_empty(), spec));
            let make = |source| Representation::open(source, &common, spec, before, look);
            if let Some(plain) = make(plain)
                && let Some(coded) = coded.into_iter().map(make).collect()
            {
                return Ok(Some(Self { plain, coded, is_compressed }));
            }
        }
        Err(OpenError::Busy(rustix::io::Errno::BUSY))
    }

    /// Whether it is what it was when it was opened, as far as that is cheap to tell.
    pub(super) fn is_fresh(&self) -> bool {
        self.all().all(|one| match &one.content {
            Content::Memory(_) => true,
            Content::File(sent) => one.stamp.is_that_of(&sent.file),
        })
    }

    /// The representation for a client: of codings that it likes as much, what lies beside the file goes before what is made.
    pub(super) fn select(&self, head: &RequestHead, made: &Rc<Made>) -> Rc<Representation> {
        if self.coded.is_empty() && !self.is_compressed {
            return self.plain.clone();
        }
        let beside: Vec<_> = self.coded.iter().filter_map(|coded| coded.coding).collect();
        if self.is_compressed
            && let Some(coding) = coding_to_make(head, &beside)
            && let Some(one) = made.get(&self.plain, coding)
        {
            return one;
        }
        let place = accepted_coding(head, &beside);
        place.and_then(|place| self.coded.get(place)).unwrap_or(&self.plain).clone()
    }

    /// The one in no coding.
    pub(super) fn plain(&self) -> &Rc<Representation> {
        &self.plain
    }

    /// Bytes of content and descriptors that it holds.
    pub(super) fn holds(&self) -> (usize, usize) {
        self.all().fold((0, 0), |(bytes, descriptors), one| match &one.content {
            Content::Memory(content) => (bytes + content.len(), descriptors),
            Content::File(_) => (bytes, descriptors + 1),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Rc<Representation>> {
        std::iter::once(&self.plain).chain(self.coded.iter())
    }
}

/// The coding that a client likes most, if it is none of those beside the file.
fn coding_to_make(head: &RequestHead, beside: &[&'static str]) -> Option<Coding> {
    let made = Coding::ALL.into_iter().filter(|coding| !beside.contains(&coding.name()));
    let offered: Vec<_> = beside.iter().copied().chain(made.map(Coding::name)).collect();
    let place = accepted_coding(head, &offered).filter(|place| *place >= beside.len())?;
    Coding::ALL.into_iter().find(|coding| coding.name() == offered[place])
}

/// What lies beside a file in a coding. One that is older than the file is of what the file was.
///
/// # Errors
/// It takes a wait; what else goes wrong there is no matter of the file.
fn beside_of(
    plain: &Source,
    coding: &'static str,
    end: &str,
    path: &str,
    root: &Root,
    look: Look<'_>,
) -> Result<Option<Source>, OpenError> {
    match Source::open(&format!("{path}{end}"), root, Some(coding), look) {
        // One thread looks for all of them.
        Err(OpenError::Cold(_)) => Err(OpenError::Cold(path.into())),
        beside => {
            let beside = beside.ok().flatten();
            Ok(beside.filter(|beside| beside.stamp.modified_s >= plain.stamp.modified_s))
        }
    }
}

impl Source {
    fn open(
        path: &str,
        root: &Root,
        coding: Option<&'static str>,
        look: Look<'_>,
    ) -> Result<Option<Self>, OpenError> {
        match root.open(path, look)? {
            Opened::File(file, stamp) => Ok(Some(Self { file, stamp, coding })),
            Opened::Folder(_) => Ok(None),
        }
    }

    /// The content, if it is small and there at once; the file, else. None: it changed while it was read.
    fn content(self, spec: &FilesSpec) -> Option<Content> {
        if self.stamp.len <= CONTENT_BYTES_MAX {
            let mut content = vec![0; usize::try_from(self.stamp.len).unwrap_or_default()];
            let read = if content.is_empty() { Ok(0) } else { read_in_memory(&self.file, &mut content, 0) };
            // A worker does not wait for the disk: what is not all there is sent as larger files are.
            if read == Ok(content.len()) {
                return self.stamp.is_that_of(&self.file).then(|| Content::Memory(content.into()));
            }
        }
        Some(Content::File(Arc::new(SentFile::new(self.file, self.stamp.len, spec.passage()))))
    }
}

impl Content {
    /// Reads all of it, and waits for the disk: for threads that may.
    ///
    /// # Errors
    /// It cannot be read, or is not what it was.
    pub(super) fn read(&self, stamp: &Stamp) -> io::Result<Bytes> {
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

impl Representation {
    fn open(
        source: Source,
        common: &Rc<Common>,
        spec: &FilesSpec,
        before: Option<&Resource>,
        look: Look<'_>,
    ) -> Option<Rc<Self>> {
        let Source { stamp, coding, .. } = source;
        let modified_s = u64::try_from(stamp.modified_s).ok().filter(|modified| *modified <= look.wall_s);
        let known =
            before.and_then(|before| before.all().find(|one| one.stamp == stamp && one.coding == coding));
        let content = match known {
            // One that was not in memory may be by now.
            Some(known) if matches!(known.content, Content::Memory(_)) || stamp.len > CONTENT_BYTES_MAX => {
                if known.modified_s == modified_s && known.common == *common {
                    return Some(known.clone());
                }
                known.content.clone()
            }
            _ => source.content(spec)?,
        };
        let one = Self {
            content,
            len: stamp.len,
            base: 0,
            stamp,
            modified_s,
            coding,
            common: common.clone(),
            heads: OnceCell::new(),
        };
        match common.etag {
            Etag::Off => _ = one.tell(String::new()),
            Etag::Content if one.len <= DIGESTED_BYTES_MAX => {}
            Etag::Stat | Etag::Content => _ = one.tell(tag_of_stat(&stamp, coding)),
        }
        Some(Rc::new(one))
    }

    /// What a file is in a coding.
    pub(super) fn made(plain: &Self, coding: Coding, content: Bytes, sha256: &[u8; 32]) -> Self {
        let one = Self {
            len: content.len() as u64,
            base: 0,
            content: Content::Memory(content),
            stamp: plain.stamp,
            modified_s: plain.modified_s,
            coding: Some(coding.name()),
            common: plain.common.clone(),
            heads: OnceCell::new(),
        };
        let etag = match one.common.etag {
            Etag::Off => String::new(),
            Etag::Content => tag_of_content(sha256, one.coding),
            Etag::Stat => {
                // Another release may compress otherwise: the tag is of the bytes, too.
                let start = sha256.first_chunk().map_or(0, |start| u64::from_be_bytes(*start));
                format!("{}.{start:016x}\"", tag_of_stat(&one.stamp, one.coding).trim_end_matches('"'))
            }
        };
        one.tell(etag);
        one
    }

    /// A part of it, by its place in the file, or all of it as another media type.
    pub(super) fn derived(&self, part: &Range<u64>, content_type: Option<&str>) -> Self {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let content = match &self.content {
            Content::Memory(content) => Content::Memory(content.slice(place(part.start)..place(part.end))),
            file @ Content::File(_) => file.clone(),
        };
        let common = match content_type {
            None => self.common.clone(),
            Some(content_type) => Rc::new(Common {
                content_type: content_type.to_owned(),
                lines: self.common.lines.clone(),
                fresh_s: self.common.fresh_s,
                etag: self.common.etag,
            }),
        };
        let one = Self {
            content,
            len: part.end - part.start,
            base: part.start,
            stamp: self.stamp,
            modified_s: self.modified_s,
            coding: self.coding,
            common,
            heads: OnceCell::new(),
        };
        let mut etag = self.heads.get().map_or_else(String::new, |heads| heads.etag.clone());
        if *part != (0..self.len) && etag.ends_with('"') {
            etag.truncate(etag.len() - 1);
            etag.push_str(&format!(".{:x}-{:x}\"", part.start, part.end - part.start));
        }
        one.tell(etag);
        one
    }

    /// Where it begins in the file.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Whether it was made of that, and says what that says now.
    pub(super) fn is_of(&self, plain: &Self) -> bool {
        self.stamp == plain.stamp && self.modified_s == plain.modified_s && self.common == plain.common
    }

    /// None: its tag is that of its content, which is not known yet.
    pub(super) fn heads(&self) -> Option<&Heads> {
        self.heads.get()
    }

    /// Makes the heads with the digest of the content.
    pub(super) fn tell_content(&self, sha256: &[u8]) -> &Heads {
        self.tell(tag_of_content(sha256, self.coding))
    }

    fn tell(&self, etag: String) -> &Heads {
        self.heads.get_or_init(|| Heads::new(etag, self))
    }

    /// The heads without a tag, for one reply.
    pub(super) fn untagged(&self) -> Heads {
        Heads::new(String::new(), self)
    }

    pub(super) fn validators<'a>(&self, heads: &'a Heads) -> Validators<'a> {
        Validators { etag: heads.etag.as_bytes(), modified_s: self.modified_s }
    }

    pub(super) fn coding(&self) -> Option<&'static str> {
        self.coding
    }

    /// How long it stays fresh, if replies are to say until when.
    pub(super) fn fresh_s(&self) -> Option<u32> {
        self.common.fresh_s
    }

    pub(super) fn content_type(&self) -> &str {
        &self.common.content_type
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

impl Heads {
    fn new(etag: String, of: &Representation) -> Self {
        let mut lines = Vec::new();
        if !etag.is_empty() {
            push_field(&mut lines, b"ETag", etag.as_bytes());
        }
        lines.extend_from_slice(&of.common.lines);
        let mut lines_without_content = lines.clone();
        push_field(&mut lines, b"Accept-Ranges", b"bytes");
        if let Some(modified_s) = of.modified_s {
            let modified = http_date(UNIX_EPOCH + Duration::from_secs(modified_s));
            push_field(&mut lines, b"Last-Modified", &modified);
            if etag.is_empty() {
                push_field(&mut lines_without_content, b"Last-Modified", &modified);
            }
        }
        if let Some(coding) = of.coding {
            push_field(&mut lines, b"Content-Encoding", coding.as_bytes());
        }
        let lines_of_parts = Bytes::copy_from_slice(&lines);
        push_field(&mut lines, b"Content-Type", of.common.content_type.as_bytes());
        let lines_without_content = lines_without_content.into();
        Self { etag, lines: lines.into(), lines_of_parts, lines_without_content }
    }
}

impl Common {
    /// `varies`: a reply depends on what the client accepts.
    fn new(content_type: String, varies: bool, spec: &FilesSpec) -> Self {
        let mut lines = Vec::new();
        let cache_control = for_type(&spec.cache_control, &content_type);
        if let Some(value) = cache_control {
            push_field(&mut lines, b"Cache-Control", value.as_bytes());
        }
        let fresh_s = cache_control.filter(|_| spec.expires).and_then(max_age_s);
        if varies {
            push_field(&mut lines, b"Vary", b"Accept-Encoding");
        }
        spec.push_headers(&mut lines);
        Self { content_type, lines, fresh_s, etag: spec.etag }
    }
}

/// `max-age` of a `Cache-Control` (RFC 9111 section 5.2.2.1), in seconds.
fn max_age_s(cache_control: &str) -> Option<u32> {
    let mut directives = cache_control.split(',').filter_map(|directive| directive.trim().split_once('='));
    let (_, seconds) = directives.find(|(name, _)| name.eq_ignore_ascii_case("max-age"))?;
    seconds.trim_matches('"').parse().ok()
}

/// From what tells a file from what it was. Machines that have the same files with the same times say the same.
fn tag_of_stat(stamp: &Stamp, coding: Option<&str>) -> String {
    let Stamp { len, modified_s, modified_ns, .. } = stamp;
    let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding));
    format!("\"{modified_s:x}.{modified_ns:x}-{len:x}{dash}{coding}\"")
}

/// Machines that have the same content say the same.
pub(super) fn tag_of_content(sha256: &[u8], coding: Option<&str>) -> String {
    let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding));
    format!("\"{}{dash}{coding}\"", BASE64_URL_SAFE_NO_PAD.encode(sha256))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::future::ready;
    use std::task::{Context, Poll, Waker};

    use super::super::errand::{News, Wait};
    use super::*;

    fn bring(errand: &mut Errand, news: News) {
        let wait: Wait = Box::pin(ready(news));
        errand.begin(wait);
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(errand.poll(&mut context), Poll::Ready(None)));
    }

    #[test]
    fn what_changed_since_a_thread_opened_it_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "before").unwrap();
        let spec = FilesSpec::new(folder.path().to_owned());
        let root = Root::new(&spec);
        let made = Made::new(&spec, Rc::default());
        let at = Instant::now();
        let brought = || root.beneath(at).ok().unwrap().open_all("a", &CODINGS.map(|(_, end)| end));
        let mut errand = Errand::default();
        bring(&mut errand, News::Opened(brought()));
        fs::write(&path, "behind it").unwrap();

        let look = Look { at, wall_s: 0, errand: Some(&errand), is_patient: true };
        let resource = Resource::open("a", &root, &spec, &made, None, look).ok().flatten().unwrap();
        assert_eq!(resource.plain().len(), 9);

        bring(&mut errand, News::Failed);
        assert!(errand.brought("a").is_none());
    }
}
