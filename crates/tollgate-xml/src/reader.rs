//! Reads a document that comes in pieces.
//!
//! [`Reader`] decodes the pieces and keeps the place. [`Core`] turns text into events. Markup that a piece
//! cuts waits in [`Carry`] until it is complete.

mod between;
mod carry;
mod core;
mod skip;

use crate::decoder::{Decoder, Detected, detect};
use crate::error::{Fault, XmlError};
use crate::events::Events;
use crate::limits::Limits;
use crate::position::{Position, Width};
use carry::Carry;
use core::Core;

/// Reads a document piece by piece.
///
/// The events and the first fault depend on the bytes of the document alone, not on where its pieces end. A
/// reader that failed returns the same fault again.
#[derive(Debug)]
pub struct Reader {
    input: Input,
    /// Text of a piece that had to be converted.
    buffer: String,
    body: Body,
}

/// The encoding of the document.
#[derive(Debug)]
enum Input {
    /// The first bytes, which do not decide the encoding yet.
    Undecided(Vec<u8>),
    Known(Decoder),
    Failed(XmlError),
}

/// The document after its bytes are decoded.
#[derive(Debug)]
struct Body {
    core: Core,
    carry: Carry,
    /// Place after the text that was read, with the text in `carry`.
    position: Position,
    width: Width,
}

impl Reader {
    /// Creates a reader for one document.
    pub fn new(limits: Limits) -> Self {
        Self {
            input: Input::Undecided(Vec::new()),
            buffer: String::new(),
            body: Body {
                core: Core::new(limits),
                carry: Carry::default(),
                position: Position::START,
                width: Width::Utf8,
            },
        }
    }

    /// Reads the next piece of the document. A piece may be empty.
    ///
    /// # Errors
    /// The document has a fault, or `events` stopped. All events before the fault were reported.
    pub fn feed<E: Events + ?Sized>(&mut self, piece: &[u8], events: &mut E) -> Result<(), XmlError> {
        let result = self.try_feed(piece, events);
        self.keep_fault(result)
    }

    /// Checks that the document is complete.
    ///
    /// # Errors
    /// The document ends too early, or it failed before.
    pub fn finish<E: Events + ?Sized>(&mut self, events: &mut E) -> Result<(), XmlError> {
        let result = self.try_finish(events);
        self.keep_fault(result)
    }

    /// Returns the number of open elements.
    pub fn depth(&self) -> usize {
        self.body.core.depth()
    }

    /// Returns the names of the open elements, such as `/orders/order`. `/` outside of the root element.
    pub fn path(&self) -> String {
        self.body.core.path()
    }

    /// Returns the place after all pieces.
    pub fn position(&self) -> Position {
        self.body.position
    }

    fn keep_fault(&mut self, result: Result<(), XmlError>) -> Result<(), XmlError> {
        result.inspect_err(|error| self.input = Input::Failed(error.clone()))
    }

    fn try_feed<E: Events + ?Sized>(&mut self, piece: &[u8], events: &mut E) -> Result<(), XmlError> {
        match &mut self.input {
            Input::Known(decoder) => self.body.decode(decoder, piece, &mut self.buffer, events),
            Input::Undecided(head) if head.is_empty() => self.begin(piece, false, events),
            Input::Undecided(head) => {
                let mut head = std::mem::take(head);
                head.extend_from_slice(piece);
                self.begin(&head, false, events)
            }
            Input::Failed(error) => Err(error.clone()),
        }
    }

    /// Reads the first bytes of the document.
    fn begin<E: Events + ?Sized>(
        &mut self,
        bytes: &[u8],
        is_whole: bool,
        events: &mut E,
    ) -> Result<(), XmlError> {
        let found = detect(bytes, is_whole).map_err(|fault| self.body.error(*fault, Position::START, ""))?;
        let Detected::Known { mut decoder, mark_bytes } = found else {
            self.input = Input::Undecided(bytes.to_vec());
            return Ok(());
        };
        self.body.width = decoder.width();
        self.body.position.byte += mark_bytes as u64;
        let result = self.body.decode(&mut decoder, &bytes[mark_bytes..], &mut self.buffer, events);
        self.input = Input::Known(decoder);
        result
    }

    fn try_finish<E: Events + ?Sized>(&mut self, events: &mut E) -> Result<(), XmlError> {
        if let Input::Undecided(head) = &mut self.input {
            let head = std::mem::take(head);
            self.begin(&head, true, events)?;
        }
        match &self.input {
            Input::Known(decoder) => self.body.finish(decoder, events),
            Input::Undecided(_) => Ok(()),
            Input::Failed(error) => Err(error.clone()),
        }
    }
}

impl Body {
    fn decode<E: Events + ?Sized>(
        &mut self,
        decoder: &mut Decoder,
        mut bytes: &[u8],
        buffer: &mut String,
        events: &mut E,
    ) -> Result<(), XmlError> {
        while !bytes.is_empty() {
            let taken = match decoder.decode(bytes, buffer) {
                Ok((text, taken)) => {
                    self.read(text, events)?;
                    taken
                }
                Err(fault) => {
                    self.check_carry(events)?;
                    return Err(self.error(*fault, self.position, ""));
                }
            };
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Reads the next text.
    fn read<E: Events + ?Sized>(&mut self, text: &str, events: &mut E) -> Result<(), XmlError> {
        let mut at = 0;
        while !self.carry.is_empty() && at < text.len() {
            at += self.complete_carry(&text[at..], events)?;
        }
        let begin = self.position.after(&text[..at], self.width);
        let rest = &text[at..];
        let read = self.core.read(rest, self.width, events);
        let read = read.map_err(|fault| self.error(*fault, begin, rest))?;
        if read < rest.len() {
            self.carry.begin(&rest[read..], begin.after(&rest[..read], self.width));
        }
        self.position = begin.after(rest, self.width);
        Ok(())
    }

    /// Moves text into the cut markup until it may be complete, and returns how much of the text it took.
    fn complete_carry<E: Events + ?Sized>(&mut self, text: &str, events: &mut E) -> Result<usize, XmlError> {
        let taken = self.carry.extend(text, self.core.limits().tag_bytes_max);
        if !taken.is_ready {
            return Ok(taken.bytes);
        }
        let carried = self.carry.take();
        let read = self.core.read(&carried.text, self.width, events);
        let read = read.map_err(|fault| self.error(*fault, carried.position, &carried.text))?;
        if read > 0 {
            debug_assert_eq!(read, carried.text.len());
            return Ok(taken.bytes);
        }
        if taken.bytes == 0 {
            return Err(self.error(*self.core.too_long(0), carried.position, &carried.text));
        }
        self.carry.put_back(carried);
        Ok(taken.bytes)
    }

    /// Finds a fault in markup that never becomes complete.
    fn check_carry<E: Events + ?Sized>(&mut self, events: &mut E) -> Result<(), XmlError> {
        if self.carry.is_empty() {
            return Ok(());
        }
        let carried = self.carry.take();
        let read = self.core.read(&carried.text, self.width, events);
        read.map_err(|fault| self.error(*fault, carried.position, &carried.text))?;
        self.carry.put_back(carried);
        Ok(())
    }

    fn finish<E: Events + ?Sized>(&mut self, decoder: &Decoder, events: &mut E) -> Result<(), XmlError> {
        self.check_carry(events)?;
        let cut = self.carry.is_cut();
        let finished = decoder.finish().and_then(|()| self.core.finish(cut));
        finished.map_err(|fault| self.error(*fault, self.position, ""))
    }

    fn error(&self, fault: Fault, begin: Position, text: &str) -> XmlError {
        let position = begin.after(&text[..fault.at], self.width);
        XmlError::new(fault, position, self.core.path())
    }
}
