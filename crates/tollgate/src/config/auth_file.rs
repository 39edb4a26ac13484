//! The files of `[auth.NAME]`: passwords, tokens and keys, which are read with the configuration.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tollgate_server::{BackendOptions, LoadedFile};

use super::inside::check_inside;
use super::key::Facts;
use super::path::{PathTo, path};
use super::section::Section;

/// Maximum bytes of a password file, a token file or a key file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The folder and the backends of a file, for its credentials.
#[derive(Clone, Copy)]
pub(super) struct AuthPlace<'a> {
    /// The folder that files are relative to.
    pub(super) folder: &'a Path,
    pub(super) backends: &'a [BackendOptions],
    /// Whether the file belongs to an app, whose files stay in its folder.
    pub(super) is_app: bool,
}

/// Takes a file, and reads it.
pub(super) fn file<T>(
    section: &mut Section<'_>,
    key: &Facts,
    place: AuthPlace<'_>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<LoadedFile<T>> {
    let written = path(section, key.name, PathTo::File)?;
    let file = place.folder.join(&written.value);
    if place.is_app {
        check_inside(section, [file.as_path()].into_iter(), place.folder);
    }
    match read(&file).and_then(|text| parse(&text)) {
        Ok(content) => Some(LoadedFile { file, content: Arc::new(content) }),
        Err(reason) => {
            let text = format!("{} in {}: {}: {reason}", key.name, section.name(), file.display());
            section.fault_at(&written.span, text);
            None
        }
    }
}

fn read(file: &Path) -> Result<String, String> {
    let bytes = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, limit {FILE_BYTES_MAX}"));
    }
    fs::read_to_string(file).map_err(|error| error.to_string())
}
