//! The texts that a configuration was made of.

use std::path::Path;

use sha2::{Digest, Sha256};
use tollgate_server::SourceFile;

/// Records a text that was read.
pub(super) fn source_file(file: &Path, text: &str) -> SourceFile {
    SourceFile { file: file.to_owned(), sha256: Sha256::digest(text).into() }
}
