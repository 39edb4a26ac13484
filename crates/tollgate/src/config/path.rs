//! Keys that hold the path of a file or a folder, relative to the folder of the configuration.

use super::section::{Section, Written};

/// What a path is that of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathTo {
    File,
    Folder,
}

/// Takes a path. One that is empty is a fault and none: joined to a folder it would be that folder.
pub(super) fn path(section: &mut Section<'_>, key: &'static str, to: PathTo) -> Option<Written<String>> {
    let written = section.text(key)?;
    let name = format!("{key} in {}", section.name());
    check_path(section, &name, &written, to).then_some(written)
}

/// Whether a path that was taken is one; says so if not.
pub(super) fn check_path(section: &Section<'_>, name: &str, written: &Written<String>, to: PathTo) -> bool {
    if written.value.is_empty() {
        let allowed = match to {
            PathTo::File => "the path of a file",
            PathTo::Folder => "the path of a folder, \".\" for the one that paths are relative to",
        };
        section.fault_at(&written.span, format!("{name} is \"\", allowed is {allowed}"));
    }
    !written.value.is_empty()
}
