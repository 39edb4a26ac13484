//! A file as it is served: itself, and what lies beside it in other codings. Each is a representation of its own, with its own
//! validators and head lines, made once and shared by all replies until the file is another.

use std::iter;
use std::rc::Rc;

use tollgate_http::{RequestHead, accepted_coding, accepts_identity, is_selective, names_tag};

use super::compress::Coding;
use super::look::Look;
use super::made::Made;
use super::media::content_type;
use super::representation::{Common, Representation};
use super::root::{OpenError, Root};
use super::source::{Content, Source};
use super::spec::FilesSpec;

/// How often a path is looked at whose file changes whenever it is read.
const LOOKS_MAX: usize = 4;
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
        let looks = iter::once(look).chain(iter::repeat_n(look.anew(), LOOKS_MAX - 1));
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
        self.all().all(|one| one.is_fresh())
    }

    /// Whether it says something else than each later version.
    pub(super) fn is_settled(&self) -> bool {
        self.all().all(|one| one.stamp.is_settled())
    }

    /// The representation for a client: of codings that it likes as much, what lies beside the file goes before what is made.
    pub(super) fn select(&self, head: &RequestHead, made: &Rc<Made>) -> Rc<Representation> {
        if self.coded.is_empty() && !self.is_compressed {
            return self.plain.clone();
        }
        // What is made goes and comes: who has the plain one has what is current.
        if self.is_compressed
            && is_selective(head)
            && self.plain.heads().is_some_and(|heads| names_tag(head, heads.etag()))
            && accepts_identity(head)
        {
            return self.plain.clone();
        }
        let beside: Vec<_> = self.coded.iter().filter_map(|coded| coded.coding()).collect();
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

    pub(super) fn all(&self) -> impl Iterator<Item = &Rc<Representation>> {
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

/// What lies beside a file in a coding. One that is older than the file is of what the file was, and one without a byte is not
/// written yet: no coding makes nothing of a content.
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

    use super::super::errand::{Errand, News, Wait};
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

        let look = Look { at, wall_us: 0, errand: Some(&errand), is_patient: true };
        let resource = Resource::open("a", &root, &spec, &made, None, look).ok().flatten().unwrap();
        assert_eq!(resource.plain().len(), 9);

        bring(&mut errand, News::Failed);
        assert!(errand.brought("a").is_none());
    }
}
