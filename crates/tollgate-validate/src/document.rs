//! The document of one message.

use tollgate_relaxng::Schema;
use tollgate_xml::{Limits, Reader, XmlError, XmlErrorKind};

use crate::fault::DocumentFault;
use crate::judge::Judge;

/// The document of one message, while its bytes arrive.
///
/// The first fault does not depend on where the pieces end.
#[derive(Debug)]
pub struct Document {
    reader: Reader,
    judge: Judge,
}

impl Document {
    /// Begins a document.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        Self { reader: Reader::new(Limits::default()), judge: Judge::new(schema) }
    }

    /// Reads and validates the next piece. A piece may be empty.
    ///
    /// # Errors
    /// The first fault of the document, also for each call after it.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), Box<DocumentFault>> {
        self.judge.allow(piece.len());
        let read = self.reader.feed(piece, &mut self.judge);
        read.map_err(|error| self.fault(&error))
    }

    /// Checks that the document is complete.
    ///
    /// # Errors
    /// The document ends too early, or it had a fault before.
    pub fn finish(&mut self) -> Result<(), Box<DocumentFault>> {
        let finished = self.reader.finish(&mut self.judge);
        finished.map_err(|error| self.fault(&error))
    }

    /// Returns the bytes of text that wait for the end of their element.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.judge.held_bytes()
    }

    #[cold]
    fn fault(&self, error: &XmlError) -> Box<DocumentFault> {
        Box::new(match self.judge.fault().filter(|_| error.kind() == XmlErrorKind::Stopped) {
            Some(invalid) => DocumentFault::of_invalid(invalid, error.position()),
            None => DocumentFault::of_xml(error),
        })
    }
}
