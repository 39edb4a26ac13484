//! Reads what stands between tags: texts, comments, CDATA sections and processing instructions.
//!
//! A piece may cut each of them, so [`State`] has what the next piece needs.

use super::core::{CONTENT, Core, Phase, State, outside};
use crate::characters::{allowed_character, end_of_plain_text, is_space, refused_character};
use crate::error::{Fault, Result};
use crate::events::Events;

impl Core {
    /// Reads text up to the next `<` or `&`.
    #[inline]
    pub(super) fn content<E: Events + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        brackets: u8,
        events: &mut E,
    ) -> Result<usize> {
        let bytes = text.as_bytes();
        let mut at = self.after_line_feed(bytes, from);
        let mut plain = at;
        loop {
            at = end_of_plain_text(bytes, at);
            let Some(&byte) = bytes.get(at) else {
                self.report(text, plain, at, events)?;
                let all = brackets_before(bytes, from, at, brackets);
                self.state = State::Content { brackets: all };
                return Ok(at);
            };
            match byte {
                b'<' | b'&' => {
                    self.report(text, plain, at, events)?;
                    self.state = CONTENT;
                    return Ok(at);
                }
                b'\r' => {
                    self.report(text, plain, at, events)?;
                    at = self.line_end(bytes, at, events)?;
                    plain = at;
                }
                b'>' if brackets_before(bytes, from, at, brackets) == 2 => {
                    self.report(text, plain, at, events)?;
                    return Err(Fault::malformed(text, at, "]]> in a text", "&gt;"));
                }
                b'>' => at += 1,
                _ => match allowed_character(text, at) {
                    Some(length) => at += length,
                    None => {
                        self.report(text, plain, at, events)?;
                        return Err(Fault::character(text, at));
                    }
                },
            }
        }
    }

    /// Reports a part of a text. Outside of the root element only white space is allowed.
    #[inline(always)]
    fn report<E: Events + ?Sized>(&self, text: &str, start: usize, end: usize, events: &mut E) -> Result<()> {
        if start == end {
            return Ok(());
        }
        if self.phase == Phase::InRoot {
            return self.text(&text[start..end], start, events);
        }
        Self::check_outside(text, start, end)
    }

    #[cold]
    fn check_outside(text: &str, start: usize, end: usize) -> Result<()> {
        let bytes = &text.as_bytes()[start..end];
        match bytes.iter().position(|&byte| !is_space(byte)) {
            None => Ok(()),
            Some(found) => Err(outside(start + found)),
        }
    }

    /// Skips the line feed after a carriage return that ended the last text.
    #[inline]
    fn after_line_feed(&mut self, bytes: &[u8], at: usize) -> usize {
        let skips = self.after_carriage_return && bytes.get(at) == Some(&b'\n');
        self.after_carriage_return = false;
        if skips { at + 1 } else { at }
    }

    /// Reports a line end that begins with a carriage return (section 2.11), and returns the first place
    /// after it.
    fn line_end<E: Events + ?Sized>(&mut self, bytes: &[u8], at: usize, events: &mut E) -> Result<usize> {
        if self.phase == Phase::InRoot {
            self.text("\n", at, events)?;
        }
        self.after_carriage_return = at + 1 == bytes.len();
        Ok(if bytes.get(at + 1) == Some(&b'\n') { at + 2 } else { at + 1 })
    }

    /// Reads a comment after its beginning (production 15).
    pub(super) fn comment(&mut self, text: &str, from: usize, mut dashes: u8) -> Result<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        while at < bytes.len() {
            match (dashes, bytes[at]) {
                (2, b'>') => {
                    self.state = CONTENT;
                    return Ok(at + 1);
                }
                (2, _) => return Err(Fault::malformed(text, at, "a comment with -- in it", "-->")),
                (_, b'-') => {
                    dashes += 1;
                    at += 1;
                }
                _ => {
                    dashes = 0;
                    let next = memchr::memchr(b'-', &bytes[at..]).map_or(bytes.len(), |found| at + found);
                    check_characters(text, at, next)?;
                    at = next;
                }
            }
        }
        self.state = State::Comment { dashes };
        Ok(at)
    }

    /// Reads a processing instruction after its target (production 16).
    pub(super) fn instruction(&mut self, text: &str, from: usize, is_question: bool) -> Result<usize> {
        let bytes = text.as_bytes();
        if is_question && bytes[from] == b'>' {
            self.state = CONTENT;
            return Ok(from + 1);
        }
        let question = memchr::memchr(b'?', &bytes[from..]).map_or(bytes.len(), |found| from + found);
        check_characters(text, from, question)?;
        let is_question = question < bytes.len();
        self.state = State::Instruction { is_question };
        Ok(if is_question { question + 1 } else { question })
    }

    /// Reads a CDATA section after its beginning (productions 18 to 21).
    pub(super) fn cdata<E: Events + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        mut brackets: u8,
        events: &mut E,
    ) -> Result<usize> {
        let bytes = text.as_bytes();
        let mut at = self.after_line_feed(bytes, from);
        while at < bytes.len() {
            match (brackets, bytes[at]) {
                (2, b'>') => {
                    self.state = CONTENT;
                    return Ok(at + 1);
                }
                (2, b']') => {
                    self.text("]", at, events)?;
                    at += 1;
                }
                (_, b']') => {
                    brackets += 1;
                    at += 1;
                }
                _ => {
                    if brackets > 0 {
                        self.text(&"]]"[..usize::from(brackets)], at, events)?;
                        brackets = 0;
                    }
                    at = self.cdata_text(text, at, events)?;
                }
            }
        }
        self.state = State::CData { brackets };
        Ok(at)
    }

    /// Reports text of a CDATA section up to the next `]`.
    fn cdata_text<E: Events + ?Sized>(&mut self, text: &str, at: usize, events: &mut E) -> Result<usize> {
        let bytes = text.as_bytes();
        if bytes[at] == b'\r' {
            return self.line_end(bytes, at, events);
        }
        let end = memchr::memchr2(b']', b'\r', &bytes[at..]).map_or(bytes.len(), |found| at + found);
        let refused = refused_character(text, at, end);
        self.report(text, at, refused.unwrap_or(end), events)?;
        match refused {
            None => Ok(end),
            Some(at) => Err(Fault::character(text, at)),
        }
    }
}

fn check_characters(text: &str, from: usize, end: usize) -> Result<()> {
    match refused_character(text, from, end) {
        None => Ok(()),
        Some(at) => Err(Fault::character(text, at)),
    }
}

/// Counts the `]` before `at`, up to two. `before` of them precede `from`.
fn brackets_before(bytes: &[u8], from: usize, at: usize, before: u8) -> u8 {
    match &bytes[from..at] {
        [.., b']', b']'] => 2,
        [b']'] => (1 + before).min(2),
        [.., b']'] => 1,
        [] => before,
        _ => 0,
    }
}
