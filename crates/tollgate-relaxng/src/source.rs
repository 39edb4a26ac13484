//! Where the text of a schema comes from.

/// The text of a schema.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The path of the file, from which included files are resolved. It is below the root of the loader.
    pub path: &'a str,
    /// The content of the file.
    pub text: &'a str,
}

/// Loads the files that a schema includes. A closure is a loader.
pub trait Loader {
    /// Returns the content of the file `path`. The path is relative, and has no `.` or `..` in it.
    ///
    /// # Errors
    /// A text that says why the file cannot be read.
    fn load(&self, path: &str) -> Result<String, String>;
}

impl<F: Fn(&str) -> Result<String, String>> Loader for F {
    fn load(&self, path: &str) -> Result<String, String> {
        self(path)
    }
}
