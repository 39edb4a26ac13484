//! A file with its representations: the plain file, and its precompressed files.
//!
//! Each representation has its own validators and head lines. Validators and head lines are created once, and
//! all replies share them until the file changes.

use std::iter;
use std::rc::Rc;

use tollgate_http::{RequestHead, accepted_coding, accepts_identity, is_selective};

use crate::compress::Coding;
use crate::compressed::CompressedFiles;
use crate::digests::{Digests, Named};
use crate::lookup_context::LookupContext;
use crate::media::{Media, media};
use crate::opened::OpenError;
use crate::options::FilesSpec;
use crate::representation::{Common, Representation};
use crate::root::Root;
use crate::source::{Content, Source};

/// Maximum number of lookups of a path whose file changes during every read.
const LOOKS_MAX: usize = 4;
/// Content codings, best first, each with the suffix of precompressed files.
pub(crate) const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// A file and its precompressed variants.
#[derive(Clone)]
pub(crate) struct Resource {
    plain: Rc<Representation>,
    coded: Rc<[Rc<Representation>]>,
    /// Whether the server compresses the file, too.
    is_compressed: bool,
}

impl Resource {
    /// Opens a file and its precompressed variants. Unchanged representations are taken from `before`.
    ///
    /// # Errors
    /// The path has no file. `None` means that the path is a folder.
    pub(crate) fn open(
        path: &str,
        root: &Root,
        spec: &FilesSpec,
        made: &CompressedFiles,
        before: Option<&Self>,
        look: LookupContext<'_>,
    ) -> Result<Option<Self>, OpenError> {
        let Media { content_type, coding } = media(path, spec);
        // A file that has a coding by its name has no other representation.
        let beside = if spec.precompressed && coding.is_none() { &CODINGS[..] } else { &[] };
        let looks = iter::once(look).chain(iter::repeat_n(look.anew(), LOOKS_MAX - 1));
        for look in looks {
            let Some(plain) = Source::open(path, root, coding, look)? else { return Ok(None) };
            let coded = beside.iter().map(|(coding, end)| beside_of(&plain, coding, end, path, root, look));
            let coded: Vec<_> = coded.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            let is_compressed = coding.is_none() && made.takes(&content_type, plain.stamp.len);
            let common = Common::new(content_type.clone(), is_compressed || !coded.is_empty(), spec);
            let common = Rc::new(common);
            let make = |source| {
                let before = before.into_iter().flat_map(Self::all);
                Representation::open(source, &common, spec, before, look)
            };
            if let Some(plain) = make(plain)
                && let Some(coded) = coded.into_iter().map(make).collect()
            {
                return Ok(Some(Self { plain, coded, is_compressed }));
            }
        }
        Err(OpenError::Busy(rustix::io::Errno::BUSY))
    }

    /// Returns whether the open files are unchanged. Only cheap checks are made.
    pub(crate) fn is_fresh(&self) -> bool {
        self.all().all(|one| one.is_fresh())
    }

    /// Returns whether every later version of the files will have another stamp.
    pub(crate) fn is_settled(&self) -> bool {
        self.all().all(|one| one.stamp.is_settled())
    }

    /// Returns the representation for a client. Among equally preferred codings, a precompressed file comes
    /// before a compressed copy.
    pub(crate) fn select(
        &self,
        head: &RequestHead,
        made: &Rc<CompressedFiles>,
        digests: &Digests,
    ) -> Rc<Representation> {
        if self.coded.is_empty() && !self.is_compressed {
            return self.plain.clone();
        }
        // A compressed copy may have left the cache since the client got the plain representation. Such a
        // client has the current version.
        let names = if self.is_compressed && is_selective(head) && accepts_identity(head) {
            self.plain.is_named(head, digests)
        } else {
            Named::Not
        };
        if let Named::Yes = names {
            return self.plain.clone();
        }
        let beside: Vec<_> = self.coded.iter().filter_map(|coded| coded.coding()).collect();
        if self.is_compressed
            && let Some(coding) = coding_to_make(head, &beside)
            && let Some(one) = made.get(&self.plain, coding)
        {
            return match names {
                Named::Maybe if !matches!(one.is_named(head, digests), Named::Yes) => self.plain.clone(),
                _ => one,
            };
        }
        let place = accepted_coding(head, &beside);
        place.and_then(|place| self.coded.get(place)).unwrap_or(&self.plain).clone()
    }

    /// Returns the file itself. It has a coding only if its name says so.
    pub(crate) fn plain(&self) -> &Rc<Representation> {
        &self.plain
    }

    /// Returns the bytes of content in memory and the number of descriptors that the resource holds.
    pub(crate) fn holds(&self) -> (usize, usize) {
        self.all().fold((0, 0), |(bytes, descriptors), one| match &one.content {
            Content::Memory(content) => (bytes + content.len(), descriptors),
            Content::File(_) => (bytes, descriptors + 1),
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Rc<Representation>> {
        std::iter::once(&self.plain).chain(self.coded.iter())
    }
}

/// Returns the content coding that a client prefers, unless a precompressed file has that coding.
fn coding_to_make(head: &RequestHead, beside: &[&'static str]) -> Option<Coding> {
    let made = Coding::ALL.into_iter().filter(|coding| !beside.contains(&coding.name()));
    let offered: Vec<_> = beside.iter().copied().chain(made.map(Coding::name)).collect();
    let place = accepted_coding(head, &offered).filter(|place| *place >= beside.len())?;
    Coding::ALL.into_iter().find(|coding| coding.name() == offered[place])
}

/// Opens the precompressed file of a coding.
///
/// A file that is older than the plain file is ignored, because it belongs to an earlier version. An empty
/// file is ignored, too: no coding encodes content as zero bytes, so its writer has not finished.
///
/// # Errors
/// `Cold`, or a lack of descriptors. In both cases the existence of the file is unknown. After any other
/// error the file counts as missing.
fn beside_of(
    plain: &Source,
    coding: &'static str,
    end: &str,
    path: &str,
    root: &Root,
    look: LookupContext<'_>,
) -> Result<Option<Source>, OpenError> {
    match Source::open(&format!("{path}{end}"), root, Some(coding), look) {
        // One thread looks up all variants together.
        Err(OpenError::Cold(_)) => Err(OpenError::Cold(path.into())),
        Err(error) if error.is_for_want_of_descriptors() => Err(error),
        beside => {
            let beside = beside.ok().flatten().filter(|beside| beside.stamp.len > 0);
            Ok(beside.filter(|beside| beside.stamp.modified_s >= plain.stamp.modified_s))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::future::ready;
    use std::task::{Context, Poll, Waker};
    use std::time::Instant;

    use rustix::io::Errno;
    use tokio::runtime::{Builder, LocalOptions};
    use tollgate_http::{DigestAlgorithm, HeadReader, Limits};

    use super::*;
    use crate::files::{Files, SharedFiles};
    use crate::options::Etag;
    use crate::pending_read::{PendingRead, ReadOutcome, ReadWait};

    fn bring(pending_read: &mut PendingRead, news: ReadOutcome) {
        let wait: ReadWait = Box::pin(ready(news));
        pending_read.begin(wait);
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(pending_read.poll(&mut context), Poll::Ready(None)));
    }

    #[test]
    fn a_file_that_changed_since_a_thread_opened_it_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "before").unwrap();
        let spec = FilesSpec::new(folder.path().to_owned());
        let root = Root::new(&spec);
        let made = CompressedFiles::new(&spec, Rc::default());
        let at = Instant::now();
        let brought = || root.beneath(at).ok().unwrap().open_all("a", &CODINGS.map(|(_, end)| end));
        let mut pending_read = PendingRead::default();
        bring(&mut pending_read, ReadOutcome::Opened(brought()));
        fs::write(&path, "behind it").unwrap();

        let look = LookupContext { at, wall_us: 0, brought: &pending_read.brought, is_patient: true };
        let resource = Resource::open("a", &root, &spec, &made, None, look).ok().flatten().unwrap();
        assert_eq!(resource.plain().len(), 9);

        bring(&mut pending_read, ReadOutcome::Failed);
        assert!(pending_read.brought.is_empty());
    }

    #[test]
    fn variants_beside_a_file_are_unknown_without_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "a").unwrap();
        let spec = FilesSpec::new(folder.path().to_owned());
        let root = Root::new(&spec);
        let made = CompressedFiles::new(&spec, Rc::default());
        let open = |beside: OpenError| {
            let at = Instant::now();
            let mut brought = root.beneath(at).ok().unwrap().open_all("a", &[".br", ".zst"]);
            brought.push(("a.gz".into(), Err(beside)));
            let mut pending_read = PendingRead::default();
            bring(&mut pending_read, ReadOutcome::Opened(brought));
            let look = LookupContext { at, wall_us: 0, brought: &pending_read.brought, is_patient: true };
            Resource::open("a", &root, &spec, &made, None, look)
        };
        assert!(open(OpenError::Forbidden).is_ok());
        assert!(open(OpenError::Busy(Errno::MFILE)).is_err_and(|error| error.is_for_want_of_descriptors()));
    }

    fn request(fields: &str) -> RequestHead {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n{fields}\r\n");
        let read = HeadReader::default().read(&mut request.as_bytes().into(), &Limits::default());
        read.unwrap().unwrap()
    }

    #[test]
    fn a_client_that_names_the_tag_of_a_content_gets_the_file_though_it_was_closed() {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("a.js"), "let a = 1;\n".repeat(10_000)).unwrap();
            let spec =
                FilesSpec { compress: true, etag: Etag::Content, ..FilesSpec::new(folder.path().to_owned()) };
            let files = Files::new(&spec, &SharedFiles::default());
            let look =
                LookupContext { at: Instant::now(), wall_us: i64::MAX, brought: &[], is_patient: false };
            let open = || files.resource("a.js", look).ok().flatten().unwrap();
            let select = |resource: &Resource, digests: &Digests, fields: &str| {
                resource.select(&request(fields), &files.made, digests)
            };
            let digest = async |digests: &Rc<Digests>, one: &Rc<Representation>| {
                digests.make(one, DigestAlgorithm::Sha256).await;
                String::from_utf8_lossy(one.heads_by(digests).unwrap().etag()).into_owned()
            };

            let first = open();
            let tag_of_plain = digest(&files.digests, first.plain()).await;
            while select(&first, &files.digests, "").coding().is_none() {
                tokio::task::yield_now().await;
            }
            let tag_of_gzip = digest(&files.digests, &select(&first, &files.digests, "")).await;
            assert_ne!(tag_of_plain, tag_of_gzip);

            let names = |tag: &str| format!("If-None-Match: {tag}\r\n");
            let no_digests = Rc::new(Digests::new(Rc::default()));
            for (digests, coding_of_others) in [(&files.digests, Some("gzip")), (&no_digests, None)] {
                files.descriptors.clear();
                let again = open();
                assert!(again.plain().heads().is_none());
                let coding = |fields: &str| select(&again, digests, fields).coding();
                assert_eq!(coding(&names(&tag_of_plain)), None);
                assert_eq!(coding(&names(&tag_of_gzip)), Some("gzip"));
                assert_eq!(coding(&names("\"other\"")), coding_of_others);
                assert_eq!(coding(&names("*")), Some("gzip"));
                assert_eq!(coding("Range: bytes=0-1\r\n"), Some("gzip"));
            }
        });
    }
}
