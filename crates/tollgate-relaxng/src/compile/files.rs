//! The files of a schema. The loader of the caller reads them, and their number and size are bounded.

use std::rc::Rc;

use crate::SchemaLimits;
use crate::source::{Loader, Source};
use crate::syntax::{self, At, File, Part, Reference, SchemaFault};

pub(super) struct Files<'a> {
    loader: &'a dyn Loader,
    limits: &'a SchemaLimits,
    names: Vec<String>,
    bytes: usize,
    open: OpenFiles,
}

/// The files that include each other around a place.
pub(super) type OpenFiles = Rc<Vec<String>>;

impl<'a> Files<'a> {
    pub(super) fn new(loader: &'a dyn Loader, limits: &'a SchemaLimits) -> Self {
        Self { loader, limits, names: Vec::new(), bytes: 0, open: OpenFiles::default() }
    }

    pub(super) const fn limits(&self) -> &SchemaLimits {
        self.limits
    }

    /// Returns the name of the file with this place.
    pub(super) fn name(&self, at: At) -> String {
        self.names.get(usize::from(at.file)).cloned().unwrap_or_default()
    }

    /// Reads the file that the caller gave.
    pub(super) fn first(&mut self, source: &Source<'_>) -> Result<Part, SchemaFault> {
        Rc::make_mut(&mut self.open).push(source.path.to_owned());
        self.read(source.path, source.text, "", At::default())
    }

    /// Reads a file that the place `at` names, which counts as open until [`Self::leave`].
    ///
    /// # Errors
    /// The file includes itself, cannot be loaded, exceeds a limit or is malformed.
    pub(super) fn enter(&mut self, reference: &Reference, at: At) -> Result<Part, SchemaFault> {
        if self.open.contains(&reference.path) {
            return Err(SchemaFault::new(at, format!("file \"{}\" includes itself", reference.path)));
        }
        let text = self.loader.load(&reference.path);
        let text =
            text.map_err(|reason| SchemaFault::new(at, format!("file \"{}\": {reason}", reference.path)))?;
        Rc::make_mut(&mut self.open).push(reference.path.clone());
        self.read(&reference.path, &text, &reference.namespace, at)
    }

    /// Ends what [`Self::enter`] began.
    pub(super) fn leave(&mut self) {
        Rc::make_mut(&mut self.open).pop();
    }

    pub(super) fn open(&self) -> OpenFiles {
        Rc::clone(&self.open)
    }

    pub(super) fn set_open(&mut self, open: OpenFiles) {
        self.open = open;
    }

    fn read(&mut self, path: &str, text: &str, namespace: &str, at: At) -> Result<Part, SchemaFault> {
        let SchemaLimits { bytes_max, files_max, .. } = *self.limits;
        self.bytes += text.len();
        if self.names.len() >= files_max {
            return Err(SchemaFault::new(
                at,
                format!("the schema has too many files: limit {files_max} files"),
            ));
        }
        let index = u16::try_from(self.names.len()).map_err(|_| {
            SchemaFault::new(at, format!("the schema has too many files: limit {} files", u16::MAX))
        })?;
        self.names.push(path.to_owned());
        if self.bytes > bytes_max {
            let text = format!("the schema is too large: {} bytes, limit {bytes_max} bytes", self.bytes);
            return Err(SchemaFault::new(at, text));
        }
        syntax::read(File { path, index, text, namespace, limits: self.limits })
    }
}
