//! Reads the files of a schema from one folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_relaxng::{CompiledSchema, Loader, SchemaError, SchemaLimits, Source};

/// A folder with the files of schemas. No file outside of it is read.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// Names the folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the resolved path of a file, which links may not lead out of the folder.
    ///
    /// # Errors
    /// A text that says why the file cannot be read.
    pub fn resolved(&self, path: &str) -> Result<PathBuf, String> {
        let cannot = |error: io::Error| format!("cannot be read: {error}");
        let root = fs::canonicalize(&self.0).map_err(cannot)?;
        let file = fs::canonicalize(self.0.join(path)).map_err(cannot)?;
        if !file.starts_with(&root) {
            return Err(format!("is outside of the folder {}", self.0.display()));
        }
        Ok(file)
    }
}

impl Loader for Folder {
    fn load(&self, path: &str) -> Result<String, String> {
        let file = self.resolved(path)?;
        let cannot = |error: io::Error| format!("cannot be read: {error}");
        let limit = SchemaLimits::default().bytes_max;
        let bytes = fs::metadata(&file).map_err(cannot)?.len();
        if bytes > limit as u64 {
            return Err(format!("is too large: {bytes} bytes, limit {limit} bytes"));
        }
        fs::read_to_string(&file).map_err(cannot)
    }
}

/// Compiles the schema in the file `path` of a loader.
///
/// # Errors
/// The first fault of the schema, or of its path. A path is relative, and has no `..`.
pub fn compile(path: &str, loader: &dyn Loader) -> Result<CompiledSchema, SchemaError> {
    let unreadable = |fault: String| SchemaError { file: path.to_owned(), line: 1, column: 1, fault };
    if !is_below(path) {
        return Err(unreadable("is no path below the folder: name a file without \"..\"".to_owned()));
    }
    let text = loader.load(path).map_err(unreadable)?;
    CompiledSchema::compile(Source { path, text: &text }, loader, &SchemaLimits::default())
}

/// Whether a path is relative, and stays below its folder.
fn is_below(path: &str) -> bool {
    use std::path::Component::{CurDir, Normal};
    let path = Path::new(path);
    path.file_name().is_some() && path.components().all(|part| matches!(part, Normal(_) | CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("app");
        fs::create_dir_all(root.join("s")).unwrap();
        fs::write(dir.path().join("secret.rnc"), "element secret { empty }").unwrap();
        fs::write(root.join("a.rnc"), "include \"s/b.rnc\"").unwrap();
        fs::write(root.join("s/b.rnc"), "start = element b { empty }").unwrap();
        fs::write(root.join("up.rnc"), "include \"../secret.rnc\"").unwrap();
        fs::write(root.join("broken.rnc"), "start = element a {\n  attribute }").unwrap();
        std::os::unix::fs::symlink("../secret.rnc", root.join("link.rnc")).unwrap();
        fs::write(root.join("by_link.rnc"), "include \"link.rnc\"").unwrap();
        (dir, Folder::new(root))
    }

    #[test]
    fn a_schema_and_its_includes_are_read_from_their_folder_only() {
        let (_dir, folder) = folder();
        assert!(compile("a.rnc", &folder).is_ok() && compile("./a.rnc", &folder).is_ok());
        let check = |path: &str, expected: &str| {
            let error = compile(path, &folder).unwrap_err().to_string();
            assert!(error.contains(expected), "{path}: {error}");
        };
        check("../secret.rnc", "../secret.rnc:1:1: is no path below the folder");
        check("/etc/passwd", "is no path below the folder");
        check("", "is no path below the folder");
        check("link.rnc", "link.rnc:1:1: is outside of the folder");
        check("by_link.rnc", "by_link.rnc:1:1: file \"link.rnc\": is outside of the folder");
        check("up.rnc", "leads out of the root");
        check("absent.rnc", "absent.rnc:1:1: cannot be read: No such file");
        check("broken.rnc", "broken.rnc:2:13: ");
    }
}
