//! Keys that hold the path of a file or a folder, relative to the folder of the configuration.

use super::section::{Section, Written};

/// The kind of file that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathTo {
    File,
    Folder,
}

/// Takes a path. An empty path is a fault, because joined to a folder it would name the folder itself.
pub(super) fn path(section: &mut Section<'_>, key: &'static str, to: PathTo) -> Option<Written<String>> {
    let written = section.text(key)?;
    let name = format!("{key} in {}", section.name());
    check_path(section, &name, &written, to).then_some(written)
}

/// Returns whether a path is valid. Adds a fault if it is not.
pub(super) fn check_path(section: &Section<'_>, name: &str, written: &Written<String>, to: PathTo) -> bool {
    if written.value.is_empty() {
        let allowed = match to {
            PathTo::File => "the path of a file",
            PathTo::Folder => "the path of a folder, or \".\" for the folder of the configuration",
        };
        section.fault_at(&written.span, format!("{name} is \"\", allowed is {allowed}"));
    }
    !written.value.is_empty()
}
