//! Listings of folders, for people and for programs.
//!
//! A thread reads the folder, within limits. A listing shows only files that would be served, because the
//! thread opens each name as a request for it would.

use bytes::Bytes;
use jiff::Timestamp;
use rustix::fs::{Dir, FileType};
use serde_json::json;
use tollgate_http::{DigestAlgorithm, escaped_html, write_path};

use crate::digest::digest_of;
use crate::opened::{OpenError, Opened};
use crate::root::Beneath;
use crate::stamp::Stamp;

/// Maximum number of entries in a listing.
pub(crate) const ENTRIES_MAX: usize = 2000;
/// Maximum number of names that are read for a listing. This limit exists because names that are not listed
/// cost time, too.
const NAMES_MAX: usize = 20_000;

/// The forms of a listing, by media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Json,
}

impl Form {
    /// All forms. The first form is for clients without a preference.
    pub(crate) const ALL: [Self; 2] = [Self::Html, Self::Json];
    pub(crate) const MEDIA_TYPES: [&str; 2] = ["text/html", "application/json"];

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// A request for a listing.
pub(crate) struct Wanted {
    /// Path of the folder below the root.
    pub(crate) below: String,
    /// The path of the request.
    pub(crate) path: String,
    pub(crate) is_top: bool,
    /// Names of index files. A folder that has an index file is not listed.
    pub(crate) index: Vec<String>,
    pub(crate) dotfiles: bool,
    pub(crate) form: Form,
    /// The digest that the client wants.
    pub(crate) algorithm: Option<DigestAlgorithm>,
}

/// A complete listing.
pub(crate) struct Rendered {
    pub(crate) content: Bytes,
    pub(crate) sha256: Bytes,
    /// The digest that the client wants.
    pub(crate) digest: Option<(DigestAlgorithm, Bytes)>,
}

struct Listing<'a> {
    path: &'a str,
    entries: Vec<FolderEntry>,
    /// Whether the folder has no entries beyond the limits.
    is_complete: bool,
}

/// An entry of a folder. The order of its fields is the sort order, so folders come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FolderEntry {
    kind: Kind,
    name: String,
    /// Size of the file in bytes. `None` for a folder.
    bytes: Option<u64>,
    /// Time of modification in UTC, to the second.
    modified: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Folder,
    File,
}

/// Reads a folder and renders its listing. Only threads that may wait call this.
///
/// `None` means that an index file has appeared since the lookup, or that a folder with an index file
/// replaced this folder.
///
/// # Errors
/// The path is no longer a folder, or cannot be read.
pub(crate) fn list(beneath: &Beneath, wanted: &Wanted) -> Result<Option<Rendered>, OpenError> {
    let Opened::Folder(folder) = beneath.open(&wanted.below)? else { return Err(OpenError::Absent) };
    let folder = beneath.at(folder);
    for name in &wanted.index {
        if is_there(folder.open(name))? {
            return Ok(None);
        }
    }
    let listing = Listing::read(folder.entries()?, beneath, wanted)?;
    let content: Bytes = match wanted.form {
        Form::Html => listing.html(wanted.is_top).into(),
        Form::Json => listing.json().into(),
    };
    Ok(Some(Rendered {
        sha256: digest_of(DigestAlgorithm::Sha256, &content),
        digest: wanted.algorithm.map(|algorithm| (algorithm, digest_of(algorithm, &content))),
        content,
    }))
}

/// Returns whether an index file exists, even if it cannot be read.
///
/// # Errors
/// The existence is unknown, because no descriptor was available.
fn is_there(index: Result<Opened, OpenError>) -> Result<bool, OpenError> {
    match index {
        Ok(Opened::Folder(_)) | Err(OpenError::Absent) => Ok(false),
        Err(error) if error.is_for_want_of_descriptors() => Err(error),
        Ok(_) | Err(_) => Ok(true),
    }
}

impl<'a> Listing<'a> {
    fn read(folder: Dir, beneath: &Beneath, wanted: &'a Wanted) -> Result<Self, OpenError> {
        let (mut entries, mut is_complete) = (Vec::new(), true);
        for (count, found) in folder.enumerate() {
            let found = found?;
            let is_one_too_many = count >= NAMES_MAX;
            let name = found.file_name().to_str().ok().filter(|name| is_shown(name, wanted.dotfiles));
            let can_be_served = matches!(
                found.file_type(),
                FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown
            );
            let name = name.filter(|_| !is_one_too_many && can_be_served);
            let entry = name.map_or(Ok(None), |name| FolderEntry::of(name, beneath, wanted))?;
            if is_one_too_many || (entry.is_some() && entries.len() >= ENTRIES_MAX) {
                is_complete = false;
                break;
            }
            entries.extend(entry);
        }
        entries.sort_unstable();
        Ok(Self { path: &wanted.path, entries, is_complete })
    }

    fn json(&self) -> String {
        let entries: Vec<_> = self.entries.iter().map(FolderEntry::json).collect();
        let listing = json!({ "path": self.path, "entries": entries, "is_complete": self.is_complete });
        format!("{listing}\n")
    }

    fn html(&self, is_top: bool) -> String {
        let path = escaped_html(self.path);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{path}</title>\n</head>\n\
             <body>\n<h1>{path}</h1>\n<table>\n\
             <thead><tr><th>name</th><th>bytes</th><th>changed, UTC</th></tr></thead>\n<tbody>\n"
        );
        if !is_top {
            html.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
        }
        self.entries.iter().for_each(|entry| entry.push_html(&mut html));
        html.push_str("</tbody>\n</table>\n");
        if !self.is_complete {
            let count = self.entries.len();
            html.push_str(&format!("<p>The folder has more entries. This page lists {count} of them.</p>\n"));
        }
        html.push_str("</body>\n</html>\n");
        html
    }
}

/// Returns whether a request can reach a file with this name.
fn is_shown(name: &str, dotfiles: bool) -> bool {
    !matches!(name, "." | "..") && !name.contains('\\') && (dotfiles || !name.starts_with('.'))
}

impl FolderEntry {
    /// Opens a name, and returns its entry. `None` if no request can get this file or folder.
    ///
    /// # Errors
    /// The existence is unknown, because no descriptor was available.
    fn of(name: &str, beneath: &Beneath, wanted: &Wanted) -> Result<Option<Self>, OpenError> {
        let opened = match beneath.open(&format!("{}{name}", wanted.below)) {
            Err(error) if error.is_for_want_of_descriptors() => return Err(error),
            opened => opened.ok(),
        };
        let found = opened.and_then(|opened| match opened {
            Opened::File(_, stamp) => Some((Kind::File, stamp)),
            Opened::Folder(folder) => Some((Kind::Folder, Stamp::of_folder(&folder)?)),
        });
        Ok(found.map(|(kind, stamp)| {
            let bytes = (kind == Kind::File).then_some(stamp.len);
            Self { kind, name: name.to_owned(), bytes, modified: shown_time(stamp.modified_s) }
        }))
    }

    fn json(&self) -> serde_json::Value {
        match (self.kind, self.bytes) {
            (Kind::Folder, _) => json!({ "type": "folder", "name": self.name, "modified": self.modified }),
            (Kind::File, bytes) => {
                json!({ "type": "file", "name": self.name, "bytes": bytes, "modified": self.modified })
            }
        }
    }

    fn push_html(&self, html: &mut String) {
        let slash = if self.kind == Kind::Folder { "/" } else { "" };
        // Without the leading `./`, a name with a colon could be parsed as a URI with a scheme.
        let mut link = b"./".to_vec();
        write_path(&mut link, &self.name);
        let link = escaped_html(&String::from_utf8_lossy(&link));
        let bytes = self.bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let (name, modified) = (escaped_html(&self.name), &self.modified);
        html.push_str(&format!(
            "<tr><td><a href=\"{link}{slash}\">{name}{slash}</a></td><td>{bytes}</td>\
             <td>{modified}</td></tr>\n"
        ));
    }
}

fn shown_time(modified_s: i64) -> String {
    Timestamp::from_second(modified_s).map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use rustix::io::Errno;

    use super::*;
    use crate::options::FilesSpec;
    use crate::root::Root;

    #[test]
    fn an_index_is_unknown_without_descriptors() {
        assert!(is_there(Err(OpenError::Busy(Errno::MFILE))).is_err());
        assert!(is_there(Err(OpenError::Forbidden)).is_ok_and(|is_there| is_there));
        assert!(is_there(Err(OpenError::Absent)).is_ok_and(|is_there| !is_there));
    }

    #[test]
    fn a_folder_that_has_an_index_by_now_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        let spec = FilesSpec::new(folder.path().to_owned());
        let beneath = Root::new(&spec).beneath(Instant::now()).ok().unwrap();
        let wanted = Wanted {
            below: "a/".to_owned(),
            path: "/a/".to_owned(),
            is_top: false,
            index: spec.index,
            dotfiles: false,
            form: Form::Json,
            algorithm: None,
        };
        let is_shown = || list(&beneath, &wanted).ok().unwrap().is_some();
        assert!(is_shown());
        fs::create_dir(folder.path().join("a/index.html")).unwrap();
        assert!(is_shown());
        fs::remove_dir(folder.path().join("a/index.html")).unwrap();
        fs::write(folder.path().join("a/index.html"), "index").unwrap();
        assert!(!is_shown());
    }
}
