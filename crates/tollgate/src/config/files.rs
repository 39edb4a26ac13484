//! `files` of a route: a folder, as a path or as a table of options. The printed table reads back to the same
//! value.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use tollgate_server::{Etag, FilesSpec, Symlinks, TryPath, is_framing_field};

use super::cors::{header_problem, is_own_field};
use super::defaults::OFF;
use super::denied::denial;
use super::key::{Facts, inline, keys, set_defaults};
use super::path::{PathTo, check_path};
use super::quoted::{quoted, quoted_list, quoted_path};
use super::section::{Section, TextOrTable, Written};
use super::units::{GIB, HOUR_MS, KIB, MIB, SECOND_MS};
use super::value::{named, names};

const ALLOWED: &str = "a folder, or a table { dir = \"...\", ... }";
/// The text in `try` that means the path of the request.
const PATH: &str = "{path}";
/// Statuses of replies whose content may be replaced by a page.
const ERRORS: [u16; 6] = [403, 404, 412, 416, 500, 503];
/// Fields that the server makes from the file, the request or other keys.
const MADE_FIELDS: [&str; 16] = [
    "accept-ranges",
    "allow",
    "cache-control",
    "content-digest",
    "content-encoding",
    "content-range",
    "content-type",
    "etag",
    "expires",
    "last-modified",
    "location",
    "repr-digest",
    "retry-after",
    "vary",
    "x-content-type-options",
    "x-request-id",
];

named!(Etag, Symlinks);

keys! {
    pub(super) KEYS of FilesSpec;
    /// The folder, relative to the folder of the configuration.
    dir [DIR] = other("needed", "a folder");
    /// The files that are sent for a folder: the first that exists.
    index [INDEX] = other(r#"`["index.html"]`"#, "names of files");
    /// Whether a folder without an index file shows a list of its files.
    listing = switch(false) => listing;
    /// The paths to look for, in this order.
    try [TRY] = other(r#"`["{path}"]`"#, r#"`"{path}"`, the same with an ending, `"/FILE"`"#);
    /// Whether files whose names begin with a dot are served.
    dotfiles = switch(false) => dotfiles;
    /// Whether symbolic links that stay in the folder are followed.
    symlinks = one_of("refuse", names::<Symlinks>) => symlinks;
    /// The charset that `Content-Type` names for text. `"off"`: none.
    charset [CHARSET] = text("utf-8", r#"a charset, `"off"`"#);
    /// Media types by extension or file name. They override the built-in ones. `*`: all unknown types.
    types [TYPES] = other("`{}`", "a table of texts");
    /// The source of entity tags.
    etag = one_of("stat", names::<Etag>) => etag;
    /// `Cache-Control`: one text for all, or by media type.
    cache_control [CACHE_CONTROL] = other("`{}`", "a text, or a table of texts");
    /// Whether replies have an `Expires` that agrees with `max-age` in `cache_control`.
    expires = switch(false) => expires;
    /// Header fields that every reply of the route gets.
    headers [HEADERS] = other("`{}`", "a table of texts").hidden();
    /// Pages that replace the server's own error texts, by status.
    errors [ERROR_PAGES] = other("`{}`", "a table of texts");
    /// Whether a file's `.br`, `.zst` or `.gz` in the same folder is sent in its place.
    precompressed = switch(true) => precompressed;
    /// Whether the server compresses files for clients that accept it.
    compress = switch(false) => compress;
    /// Bytes of compressed content that each worker keeps for this route.
    compress_cache_bytes_max = size(16 * MIB, 64 * KIB..=4 * GIB) => compress_cache_bytes_max;
    /// Whether the kernel sends files (`sendfile`) where it can.
    sendfile = switch(true) => sendfile;
    /// How long the server relies on what it knows about a file.
    recheck = duration(SECOND_MS, 0..=24 * HOUR_MS) => recheck;
}

/// Takes the files of a route, if the key is set. Their path is relative to `folder`.
pub(super) fn files(section: &mut Section<'_>, key: &Facts, folder: &Path) -> Option<FilesSpec> {
    match section.text_or_table(key.name, ALLOWED)? {
        TextOrTable::Text(dir) => checked_dir(section, key.name, &dir, folder).map(unwritten),
        TextOrTable::Table(mut table) => {
            let dir = table.needed_text(DIR.name);
            let dir = dir.and_then(|dir| checked_dir(&table, "dir in files", &dir, folder));
            Some(spec(table, FilesSpec::new(dir?)))
        }
    }
}

/// Returns the options of a folder that is written as a path only.
pub(super) fn unwritten(root: PathBuf) -> FilesSpec {
    let mut spec = FilesSpec::new(root);
    set_defaults(KEYS, &mut spec);
    spec
}

/// Returns the folder of a value, and adds a fault if there is no such folder. `None`: the value is no path.
pub(super) fn checked_dir(
    section: &Section<'_>,
    what: &str,
    dir: &Written<String>,
    folder: &Path,
) -> Option<PathBuf> {
    if !check_path(section, what, dir, PathTo::Folder) {
        return None;
    }
    let path = folder.join(&dir.value);
    if !path.is_dir() {
        let text = denial(&path).unwrap_or_else(|| {
            format!("{what} is {:?}, which is not a folder: looked for {}", dir.value, path.display())
        });
        section.fault_at(&dir.span, text);
    } else if let Err(error @ (Errno::NOSYS | Errno::PERM)) = open_beneath(&path) {
        let text = format!(
            "{what} is {:?}, but openat2 fails there: {error}. Use Linux 5.6 or later, and let the sandbox \
             allow openat2",
            dir.value
        );
        section.fault_at(&dir.span, text);
    }
    Some(path)
}

/// Opens a folder in the same way as requests will open the files below it.
fn open_beneath(folder: &Path) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty())?;
    openat2(folder, ".", flags, Mode::empty(), ResolveFlags::BENEATH).map(drop)
}

fn spec(mut table: Section<'_>, mut spec: FilesSpec) -> FilesSpec {
    table.read(KEYS, &mut spec);
    spec.index = listed(&mut table, INDEX.name, index_problem).unwrap_or(spec.index);
    spec.candidates = candidates(&mut table).unwrap_or(spec.candidates);
    spec.charset = charset(&mut table);
    spec.types = pairs(&mut table, TYPES.name, name_problem, media_problem);
    spec.cache_control = cache_control(&mut table);
    spec.headers = pairs(&mut table, HEADERS.name, field_problem, value_problem);
    spec.error_pages = error_pages(&mut table);
    table.finish();
    spec
}

fn listed(
    table: &mut Section<'_>,
    key: &'static str,
    problem: fn(&str) -> Option<&'static str>,
) -> Option<Vec<String>> {
    let texts = table.texts(key)?;
    for text in &texts {
        if let Some(problem) = problem(&text.value) {
            table.fault_at(&text.span, format!("{key} in files has {:?}, {problem}", text.value));
        }
    }
    Some(texts.into_iter().map(|text| text.value).collect())
}

fn index_problem(name: &str) -> Option<&'static str> {
    (name.contains('/') || path_problem(name).is_some()).then_some("allowed is the name of a file")
}

/// Returns the problem of a path in the folder. A request would also fail on such a path, but a fault at the
/// start shows the mistake earlier.
fn path_problem(path: &str) -> Option<&'static str> {
    let is_bad = |segment: &str| matches!(segment, "" | "." | "..");
    (path.split('/').any(is_bad) || path.contains(char::is_control))
        .then_some("allowed is the path of a file in the folder")
}

fn candidates(table: &mut Section<'_>) -> Option<Vec<TryPath>> {
    let texts = listed(table, TRY.name, try_problem)?;
    if texts.is_empty() {
        table.fault_of(
            TRY.name,
            "try in files is empty, allowed is a list like [\"{path}\", \"{path}.html\"]",
        );
    }
    let candidate = |text: &String| match (text.strip_prefix(PATH), text.strip_prefix('/')) {
        (Some(end), _) => TryPath::Requested(end.to_owned()),
        (None, path) => TryPath::Fixed(path.unwrap_or(text).to_owned()),
    };
    Some(texts.iter().map(candidate).collect())
}

fn try_problem(text: &str) -> Option<&'static str> {
    let is_sound = match (text.strip_prefix(PATH), text.strip_prefix('/')) {
        (Some(end), _) => !end.contains('/') && !end.contains(char::is_control),
        (None, Some(path)) => path_problem(path).is_none(),
        (None, None) => false,
    };
    (!is_sound)
        .then_some("allowed are \"{path}\", the same with an ending like \"{path}.html\", and \"/FILE\"")
}

fn charset(table: &mut Section<'_>) -> Option<String> {
    let Some(written) = table.text(CHARSET.name) else { return Some(CHARSET.default_text().to_owned()) };
    let is_sound = !written.value.is_empty()
        && written.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte));
    if !is_sound {
        let text = format!(
            "charset in files is {:?}, allowed is a name like \"utf-8\", or \"{OFF}\"",
            written.value
        );
        table.fault_at(&written.span, text);
    }
    (written.value != OFF).then_some(written.value)
}

/// Takes a table of texts. Its keys are compared without case.
fn pairs(
    table: &mut Section<'_>,
    key: &'static str,
    key_problem: fn(&str) -> Option<&'static str>,
    value_problem: fn(&str) -> Option<&'static str>,
) -> Vec<(String, String)> {
    let texts = table.take_table(key, format!("{key} in files")).map(Section::named_texts);
    let texts = texts.unwrap_or_default();
    for (name, value) in &texts {
        let problem = key_problem(name).map(|problem| (name, problem));
        let problem = problem.or_else(|| value_problem(&value.value).map(|problem| (&value.value, problem)));
        if let Some((found, problem)) = problem {
            table.fault_at(&value.span, format!("{key} in files has {found:?}, {problem}"));
        }
    }
    for (at, (name, value)) in texts.iter().enumerate() {
        let same = texts[..at].iter().find(|(earlier, _)| earlier.eq_ignore_ascii_case(name));
        if let Some((earlier, _)) = same {
            let allowed = "allowed is one of them: upper and lower case are equal here";
            table.fault_at(&value.span, format!("{key} in files has {earlier:?} and {name:?}, {allowed}"));
        }
    }
    texts.into_iter().map(|(name, value)| (name, value.value)).collect()
}

/// Checks a key of `types`: an extension, the whole name of a file, or `*`.
fn name_problem(name: &str) -> Option<&'static str> {
    let is_sound = name == "*" || !(name.is_empty() || name.starts_with('.') || name.contains(['/', '*']));
    (!is_sound).then_some("allowed is an extension without its dot, the name of a file, or \"*\"")
}

fn media_problem(media: &str) -> Option<&'static str> {
    let is_sound = media.contains('/') && value_problem(media).is_none();
    (!is_sound).then_some("allowed is a media type like \"text/plain\"")
}

fn pattern_problem(pattern: &str) -> Option<&'static str> {
    let is_sound = match pattern.split_once('/') {
        Some(("*", kind)) => kind == "*",
        Some((family, kind)) => !family.is_empty() && !kind.is_empty() && !pattern.contains(';'),
        None => false,
    };
    (!is_sound).then_some("allowed are media types, \"image/*\" and \"*/*\"")
}

fn field_problem(name: &str) -> Option<&'static str> {
    let is_made = MADE_FIELDS.iter().any(|made| made.eq_ignore_ascii_case(name));
    if is_made || is_framing_field(name) || is_own_field(name) {
        return Some("which only the server writes: remove it");
    }
    header_problem(name).map(|_| "allowed is the name of a header")
}

fn value_problem(value: &str) -> Option<&'static str> {
    let is_sound = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (!is_sound).then_some("allowed is printable ASCII")
}

/// Takes one value for all media types, or a table with a value for each type.
fn cache_control(table: &mut Section<'_>) -> Vec<(String, String)> {
    if table.as_written(CACHE_CONTROL.name).is_none() {
        return pairs(table, CACHE_CONTROL.name, pattern_problem, value_problem);
    }
    let Some(value) = table.text(CACHE_CONTROL.name) else { return Vec::new() };
    if let Some(problem) = value_problem(&value.value) {
        table.fault_at(&value.span, format!("cache_control in files is {:?}, {problem}", value.value));
    }
    vec![("*/*".to_owned(), value.value)]
}

fn error_pages(table: &mut Section<'_>) -> Vec<(u16, String)> {
    let pages = table.take_table(ERROR_PAGES.name, "errors in files".to_owned()).map(Section::named_texts);
    let mut checked = Vec::new();
    for (status, page) in pages.unwrap_or_default() {
        let known = status.parse().ok().filter(|status| ERRORS.contains(status));
        let path = page.value.strip_prefix('/').unwrap_or(&page.value);
        match (known, path_problem(path)) {
            (Some(status), None) => checked.push((status, path.to_owned())),
            (None, _) => {
                let allowed = ERRORS.map(|status| status.to_string()).join(", ");
                table.fault_at(&page.span, format!("errors in files has {status:?}, allowed: {allowed}"));
            }
            (_, Some(problem)) => {
                table.fault_at(&page.span, format!("errors in files has {:?}, {problem}", page.value));
            }
        }
    }
    checked
}

/// Shows the options as the file writes them, with every key.
pub(super) fn show(spec: &FilesSpec) -> String {
    let table = |pairs: &[(String, String)]| {
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| format!("{} = {}", quoted_key(key), quoted(value))).collect();
        if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
    };
    let candidates = spec.candidates.iter().map(show_candidate);
    let errors: Vec<_> =
        spec.error_pages.iter().map(|(status, page)| (status.to_string(), page.clone())).collect();
    let own = [
        (DIR.name, Some(quoted_path(&spec.root))),
        (INDEX.name, Some(quoted_list(&spec.index))),
        (TRY.name, Some(quoted_list(candidates))),
        (CHARSET.name, Some(quoted(spec.charset.as_deref().unwrap_or(OFF)))),
        (TYPES.name, Some(table(&spec.types))),
        (CACHE_CONTROL.name, Some(table(&spec.cache_control))),
        (HEADERS.name, Some(table(&spec.headers))),
        (ERROR_PAGES.name, Some(table(&errors))),
    ];
    inline(KEYS, spec, &own)
}

fn show_candidate(candidate: &TryPath) -> String {
    match candidate {
        TryPath::Requested(end) => format!("{PATH}{end}"),
        TryPath::Fixed(path) => format!("/{path}"),
    }
}

/// Quotes a key of a table. Keys have no variables, so nothing is escaped.
pub(super) fn quoted_key(key: &str) -> String {
    toml::Value::String(key.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_the_path_or_a_file_of_the_folder() {
        for sound in ["{path}", "{path}.html", "/index.html", "/app/index.html"] {
            assert_eq!(try_problem(sound), None, "{sound}");
        }
        for wrong in ["", "index.html", "{path}/x", "/../x", "/", "/a//b", "x{path}", "/a/.", "{path}\n"] {
            assert!(try_problem(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn fields_that_the_server_makes_are_not_for_headers() {
        for sound in ["X-Frame-Options", "Link", "Content-Security-Policy"] {
            assert_eq!(field_problem(sound), None, "{sound}");
        }
        for wrong in ["Content-Length", "transfer-encoding", "Date", "ETAG", "Content-Type", "a b", "", "X:"]
        {
            assert!(field_problem(wrong).is_some(), "{wrong}");
        }
        for wrong in ["x-request-id", "Tollgate-Ack", "tollgate-", "Location", "allow", "Retry-After"] {
            assert_eq!(field_problem(wrong), Some("which only the server writes: remove it"), "{wrong}");
        }
    }

    #[test]
    fn types_are_named_whole_by_family_or_all() {
        for sound in ["text/html", "image/*", "*/*"] {
            assert_eq!(pattern_problem(sound), None, "{sound}");
        }
        for wrong in ["", "*", "html", "*/html", "text/", "/html", "text/html; charset=utf-8"] {
            assert!(pattern_problem(wrong).is_some(), "{wrong}");
        }
    }
}
