//! A file as it is sent: its content, its validators and its head lines. Content, validators and head lines
//! are created once, and all replies share them until the file changes.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use tollgate_http::{Validators, http_date, push_field};

use crate::compress::Coding;
use crate::digest::DIGESTED_BYTES_MAX;
use crate::lookup_context::LookupContext;
use crate::media::{GZIP, for_type};
use crate::options::{Etag, FilesSpec};
use crate::source::{CONTENT_BYTES_MAX, Content, Source};
use crate::stamp::Stamp;

/// The content and the header fields with which a file is sent.
pub(crate) struct Representation {
    pub(crate) content: Content,
    /// Length of the content in bytes.
    len: u64,
    /// Offset of the content in the file, if the content is a file.
    base: u64,
    /// Stamp of the file that is the content, or that the content was compressed from.
    pub(crate) stamp: Stamp,
    /// Time of modification. `None` for a time in the future or before 1970.
    modified_s: Option<u64>,
    coding: Option<&'static str>,
    common: Rc<Common>,
    /// Validators and head lines. Both are created when the entity tag is known.
    heads: OnceCell<Heads>,
}

/// Validators and head lines of the replies.
pub(crate) struct Heads {
    /// Entity tag. Empty if there is none.
    etag: String,
    /// Head lines for three kinds of replies: with content, with several parts, and without content. Parts
    /// state their type themselves. A reply without content is a 304 (RFC 9110 section 15.4.5).
    pub(crate) lines: Bytes,
    pub(crate) lines_of_parts: Bytes,
    pub(crate) lines_without_content: Bytes,
}

/// Values that the representations of one path share.
#[derive(PartialEq, Eq)]
pub(crate) struct Common {
    content_type: String,
    /// Head lines of replies with and without content.
    lines: Vec<u8>,
    /// Time for which a reply stays fresh, in seconds. `None` if replies have no `Expires`.
    fresh_s: Option<u32>,
    etag: Etag,
    /// Whether a reply depends on Accept-Encoding.
    varies: bool,
}

impl Representation {
    /// Creates a representation of an open file. If the file is unchanged, the result is taken from `before`,
    /// the earlier representations of the path.
    pub(crate) fn open<'a>(
        source: Source,
        common: &Rc<Common>,
        spec: &FilesSpec,
        mut before: impl Iterator<Item = &'a Rc<Self>>,
        look: LookupContext<'_>,
    ) -> Option<Rc<Self>> {
        let Source { stamp, coding, .. } = source;
        let told_s = |stamp: Stamp| u64::try_from(stamp.modified_s).ok().filter(|s| *s <= look.wall_s());
        let known = before.find(|one| one.stamp == stamp && one.coding == coding);
        let (stamp, content) = match known {
            // Content that was not in memory at the earlier lookup may be in memory now, so the file is read
            // again.
            Some(known) if matches!(known.content, Content::Memory(_)) || stamp.len > CONTENT_BYTES_MAX => {
                if known.modified_s == told_s(stamp) && known.common == *common {
                    return Some(known.clone());
                }
                (stamp, known.content.clone())
            }
            _ => source.content(spec, look)?,
        };
        let one = Self {
            content,
            len: stamp.len,
            base: 0,
            stamp,
            modified_s: told_s(stamp),
            coding,
            common: common.clone(),
            heads: OnceCell::new(),
        };
        match common.etag {
            Etag::Off => _ = one.set_etag(String::new()),
            Etag::Content if one.len <= DIGESTED_BYTES_MAX => {}
            Etag::Stat | Etag::Content => _ = one.set_etag(tag_of_stat(&stamp, coding)),
        }
        Some(Rc::new(one))
    }

    /// Creates the representation of a file in a coding.
    pub(crate) fn made(plain: &Self, coding: Coding, content: Bytes, sha256: &[u8; 32]) -> Self {
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
                // Another release may compress differently, so the tag also depends on the compressed bytes.
                let start = sha256.first_chunk().map_or(0, |start| u64::from_be_bytes(*start));
                format!("{}.{start:016x}\"", tag_of_stat(&one.stamp, one.coding).trim_end_matches('"'))
            }
        };
        one.set_etag(etag);
        one
    }

    /// Creates the representation of a part of the file, or of the file with another media type. It has no
    /// coding, because a part of coded content cannot be decoded, and the media type describes the bytes.
    pub(crate) fn derived(&self, part: &Range<u64>, content_type: Option<&str>) -> Self {
        let content_type = content_type.or(self.coding.map(|_| GZIP));
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
                varies: self.common.varies,
            }),
        };
        let one = Self {
            content,
            len: part.end - part.start,
            base: part.start,
            stamp: self.stamp,
            modified_s: self.modified_s,
            coding: None,
            common,
            heads: OnceCell::new(),
        };
        let mut etag = self.heads.get().map_or_else(String::new, |heads| heads.etag.clone());
        if *part != (0..self.len) && etag.ends_with('"') {
            etag.truncate(etag.len() - 1);
            etag.push_str(&format!(".{:x}-{:x}\"", part.start, part.end - part.start));
        }
        one.set_etag(etag);
        one
    }

    /// Returns the offset of the content in the file.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Returns whether this representation was created from `plain` and has the same date and fields.
    pub(crate) fn is_of(&self, plain: &Self) -> bool {
        self.stamp == plain.stamp && self.modified_s == plain.modified_s && self.common == plain.common
    }

    /// Returns whether the open file is unchanged.
    pub(crate) fn is_fresh(&self) -> bool {
        match &self.content {
            Content::File(sent) => self.stamp.is_that_of(&sent.file),
            Content::Memory(_) => true,
        }
    }

    /// Returns the heads. `None` if the tag depends on the content and is not yet known.
    pub(crate) fn heads(&self) -> Option<&Heads> {
        self.heads.get()
    }

    pub(crate) fn set_etag(&self, etag: String) -> &Heads {
        self.heads.get_or_init(|| Heads::new(etag, self))
    }

    /// Returns heads without a tag, for one reply.
    pub(crate) fn untagged(&self) -> Heads {
        Heads::new(String::new(), self)
    }

    pub(crate) fn validators<'a>(&self, heads: &'a Heads) -> Validators<'a> {
        Validators { etag: heads.etag(), modified_s: self.modified_s }
    }

    /// Returns the validators for If-Range.
    ///
    /// Several representations of one path share the date. The date is then not a strong validator (RFC 9110
    /// section 8.8.1).
    pub(crate) fn validators_of_ranges<'a>(&self, heads: &'a Heads) -> Validators<'a> {
        let validators = self.validators(heads);
        Validators { modified_s: validators.modified_s.filter(|_| !self.common.varies), ..validators }
    }

    /// Returns whether the modification time was in the future when the representation was created.
    pub(crate) fn is_ahead(&self) -> bool {
        self.modified_s.is_none() && self.stamp.modified_s > 0
    }

    pub(crate) fn coding(&self) -> Option<&'static str> {
        self.coding
    }

    /// Returns the time for which a reply stays fresh, in seconds, if replies have `Expires`.
    pub(crate) fn fresh_s(&self) -> Option<u32> {
        self.common.fresh_s
    }

    pub(crate) fn content_type(&self) -> &str {
        &self.common.content_type
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

impl Heads {
    /// Returns the entity tag. Empty if there is none.
    pub(crate) fn etag(&self) -> &[u8] {
        self.etag.as_bytes()
    }

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
    pub(crate) fn new(content_type: String, varies: bool, spec: &FilesSpec) -> Self {
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
        Self { content_type, lines, fresh_s, etag: spec.etag, varies }
    }
}

/// Returns `max-age` of a `Cache-Control` in seconds (RFC 9111 section 5.2.2).
///
/// The result is 0 if `no-cache` or `no-store` requires validation of each use.
fn max_age_s(cache_control: &str) -> Option<u32> {
    let directives = || {
        let directives = cache_control.split(',').map(str::trim);
        directives.map(|directive| directive.split_once('=').unwrap_or((directive, "")))
    };
    let is_asked_for = directives()
        .any(|(name, _)| ["no-cache", "no-store"].iter().any(|asking| name.eq_ignore_ascii_case(asking)));
    let (_, seconds) = directives().find(|(name, _)| name.eq_ignore_ascii_case("max-age"))?;
    let seconds = seconds.trim_matches('"').parse().ok()?;
    Some(if is_asked_for { 0 } else { seconds })
}

/// Returns a tag of the length and the time of modification. Machines with the same files and times return
/// the same tags.
///
/// The tag is weak as long as the next version may have the same time (RFC 9110 section 8.8.1). The text of
/// the weak tag also differs from the text of the later strong tag. A weak comparison only compares the
/// texts. With equal texts a client would keep this version after the next one appeared.
fn tag_of_stat(stamp: &Stamp, coding: Option<&str>) -> String {
    let Stamp { len, modified_s, modified_ns, .. } = stamp;
    let (weak, new) = if stamp.is_settled() { ("", "") } else { ("W/", "-new") };
    let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding));
    format!("{weak}\"{modified_s:x}.{modified_ns:x}-{len:x}{new}{dash}{coding}\"")
}

/// Returns a tag of the content. Machines with the same content return the same tags.
pub(crate) fn tag_of_content(sha256: &[u8], coding: Option<&str>) -> String {
    let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding));
    format!("\"{}{dash}{coding}\"", BASE64_URL_SAFE_NO_PAD.encode(sha256))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;
    use crate::files::{Files, SharedFiles};

    #[test]
    fn a_file_opened_in_a_folder_is_no_younger_than_the_look_at_the_folder() {
        let site = tempfile::tempdir().unwrap();
        let (folder, next) = (site.path().join("public"), site.path().join("next"));
        for (folder, text) in [(&folder, "old"), (&next, "newer")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("a"), text).unwrap();
        }
        let spec = FilesSpec { recheck: Duration::from_secs(4), ..FilesSpec::new(folder.clone()) };
        let files = Files::new(&spec, &SharedFiles::default());
        let begun = Instant::now();
        let len = |after_s| {
            let at = begun + Duration::from_secs(after_s);
            let look = LookupContext { at, wall_us: i64::MAX, brought: &[], is_patient: false };
            files.resource("a", look).ok().flatten().map(|resource| resource.plain().len())
        };
        let look = LookupContext { at: begun, wall_us: i64::MAX, brought: &[], is_patient: false };
        assert!(files.resource("none", look).is_err());
        assert_eq!(len(3), Some(3));
        fs::rename(&folder, site.path().join("old")).unwrap();
        fs::rename(&next, &folder).unwrap();
        assert_eq!(len(3), Some(3));
        assert_eq!(len(4), Some(5));
    }

    #[test]
    fn each_request_looks_whether_a_file_was_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let files = Files::new(&FilesSpec::new(folder.path().to_owned()), &SharedFiles::default());
        // All three lookups have the time of one request.
        let look = LookupContext { at: Instant::now(), wall_us: 0, brought: &[], is_patient: false };
        for len in [100_000, 99_999, 100_001] {
            fs::write(&path, vec![1; len as usize]).unwrap();
            let resource = files.resource("a", look).ok().flatten().unwrap();
            assert_eq!(resource.plain().len(), len);
        }
    }
}
