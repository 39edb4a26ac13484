//! What a reader reports.

use crate::attributes::Attributes;
use crate::name::Name;

/// Receives the events of a document.
///
/// The parts of one text may come in several calls of [`Events::text`]. Their borders depend on the pieces,
/// and their sum does not. Comments, processing instructions and the XML declaration are checked and not
/// reported. A text in a CDATA section is a text.
pub trait Events {
    /// An element begins. [`Events::end`] follows also for `<a/>`.
    ///
    /// # Errors
    /// [`Stop`] ends the reading.
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop>;

    /// A part of a text within the root element. It is never empty.
    ///
    /// # Errors
    /// [`Stop`] ends the reading.
    fn text(&mut self, text: &str) -> Result<(), Stop>;

    /// An element ends.
    ///
    /// # Errors
    /// [`Stop`] ends the reading.
    fn end(&mut self, name: Name<'_>) -> Result<(), Stop>;

    /// Returns whether the content of the element that began last needs no events. The reader checks such
    /// content and does not report it. It reports the end of the element.
    fn skips_content(&self) -> bool {
        false
    }
}

/// Ends the reading. The receiver keeps the reason, and [`crate::XmlError`] has the place of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;
