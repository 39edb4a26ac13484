//! Markup that the end of a piece cuts.
//!
//! The markup is read again only where it may be complete: at a `>` outside of quotes, or at the end of a
//! reference. So the work grows in proportion to the length, wherever the pieces end.

use crate::characters::is_space;
use crate::markup::begins_declaration;
use crate::position::Position;

/// Markup of which the end is missing. Its text is empty if there is none.
#[derive(Debug)]
pub(super) struct Carry {
    pub(super) text: String,
    /// Place at which the markup begins.
    pub(super) position: Position,
    /// The open quote, if there is one.
    quote: Option<u8>,
}

/// What a carry took of a text.
pub(super) struct Taken {
    pub(super) bytes: usize,
    /// Whether the markup may be complete, or reached its bound.
    pub(super) is_ready: bool,
}

/// What may be the end of some markup.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// Each character, because too few are known.
    Any,
    /// The first character that is not in a name.
    Name,
    /// The next `>`.
    Bracket,
    /// The next `>` or `[` outside of quotes.
    BracketOutsideQuotes,
}

impl Default for Carry {
    fn default() -> Self {
        Self { text: String::new(), position: Position::START, quote: None }
    }
}

impl Carry {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns whether the document ends within markup.
    pub(super) fn is_cut(&self) -> bool {
        !self.is_empty()
    }

    /// Keeps the beginning of some markup.
    pub(super) fn begin(&mut self, text: &str, position: Position) {
        self.text.push_str(text);
        self.position = position;
        self.quote = None;
        if self.end() == End::BracketOutsideQuotes {
            self.end_outside_quotes(text.as_bytes());
        }
    }

    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    pub(super) fn put_back(&mut self, carry: Self) {
        *self = carry;
    }

    /// Takes the text up to a place where the markup may be complete. The markup gets at most `bytes_max`
    /// bytes.
    pub(super) fn extend(&mut self, text: &str, bytes_max: usize) -> Taken {
        let room = bytes_max.saturating_sub(self.text.len());
        let more = &text[..text.floor_char_boundary(room)];
        if more.is_empty() {
            return Taken { bytes: 0, is_ready: true };
        }
        let bytes = more.as_bytes();
        let end = match self.end() {
            End::Any => more.chars().next().map(char::len_utf8),
            End::Name => bytes.iter().position(|&byte| !is_in_name(byte)).map(|at| at + 1),
            End::Bracket => memchr::memchr(b'>', bytes).map(|at| at + 1),
            End::BracketOutsideQuotes => self.end_outside_quotes(bytes),
        };
        self.text.push_str(&more[..end.unwrap_or(more.len())]);
        Taken { bytes: end.unwrap_or(more.len()), is_ready: end.is_some() }
    }

    fn end(&self) -> End {
        match self.text.as_bytes() {
            [b'&', ..] => End::Name,
            [] | [_] => End::Any,
            [b'<', b'!', rest @ ..] if rest.len() < "[CDATA[".len() => End::Any,
            [b'<', b'/', ..] => End::Bracket,
            text @ [b'<', b'?', ..] => match begins_declaration(text) {
                None => End::Any,
                Some(true) => End::Bracket,
                Some(false) => End::Name,
            },
            _ => End::BracketOutsideQuotes,
        }
    }

    /// Returns the first place after a `>` or `[` outside of quotes.
    fn end_outside_quotes(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            if let Some(quote) = self.quote {
                at += memchr::memchr(quote, &bytes[at..])? + 1;
                self.quote = None;
            }
            let found = bytes[at..].iter().position(|byte| matches!(byte, b'>' | b'[' | b'"' | b'\''))?;
            at += found + 1;
            match bytes[at - 1] {
                b'>' | b'[' => return Some(at),
                quote => self.quote = Some(quote),
            }
        }
    }
}

/// Returns whether a name, or the number of a character, may contain the byte.
fn is_in_name(byte: u8) -> bool {
    !is_space(byte) && (byte >= 0x80 || byte.is_ascii_alphanumeric() || b"#-._:".contains(&byte))
}
