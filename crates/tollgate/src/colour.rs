//! Colours of a terminal. A colour only repeats the word that a line begins with, so a reader without colours
//! misses nothing.
//!
//! Colours are off if `NO_COLOR` is set, if `TERM` is `dumb`, or if the output is no terminal.
//! `CLICOLOR_FORCE` turns them on without a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// Select Graphic Rendition (ECMA-48 section 8.3.117).
const RESET: &str = "\x1b[0m";

/// What a text means for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
}

impl Tone {
    /// Bold, and green, yellow or red.
    const fn start(self) -> &'static str {
        match self {
            Self::Good => "\x1b[1;32m",
            Self::Warning => "\x1b[1;33m",
            Self::Bad => "\x1b[1;31m",
        }
    }

    /// Returns the text in the colour of the tone.
    pub(crate) fn paint(self, text: &str) -> String {
        format!("{}{text}{RESET}", self.start())
    }
}

/// The words at the start of a line, with their tones. A longer word precedes its own beginning.
const WORDS: [(&str, Tone); 18] = [
    ("ALL WELL", Tone::Good),
    ("READY, WITH WARNINGS", Tone::Warning),
    ("NOT READY", Tone::Bad),
    ("WARNING:", Tone::Warning),
    ("ok:", Tone::Good),
    ("ok ", Tone::Good),
    ("note:", Tone::Warning),
    ("FAIL ", Tone::Bad),
    ("exact:", Tone::Good),
    ("not exact:", Tone::Bad),
    ("BAD ", Tone::Bad),
    ("torn ", Tone::Warning),
    ("not counted:", Tone::Bad),
    ("missing:", Tone::Bad),
    ("hole:", Tone::Bad),
    ("given up:", Tone::Warning),
    ("script failed:", Tone::Bad),
    ("reject ", Tone::Warning),
];

/// Returns whether a stream shows colours.
pub(crate) fn is_on(stream: &impl IsTerminal) -> bool {
    decide(
        |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        stream.is_terminal(),
    )
}

fn decide(variable: impl Fn(&str) -> Option<String>, is_terminal: bool) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("NO_COLOR") {
        return false;
    }
    let is_forced = variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    is_forced || (is_terminal && variable("TERM").is_some_and(|term| term != "dumb"))
}

/// Returns a line with its first word in the colour of the word.
pub(crate) fn marked(line: &str) -> Cow<'_, str> {
    let Some((word, tone)) = WORDS.into_iter().find(|(word, _)| line.starts_with(word)) else {
        return Cow::Borrowed(line);
    };
    let word = word.trim_end();
    Cow::Owned(format!("{}{}", tone.paint(word), &line[word.len()..]))
}

/// Marks the first words of lines, if its stream shows colours.
pub(crate) struct Marked<W> {
    out: W,
    is_on: bool,
    /// The line that has no end yet.
    line: Vec<u8>,
}

impl<W: Write> Marked<W> {
    /// Marks the lines of a writer to stdout.
    pub(crate) fn stdout(out: W) -> Self {
        Self { out, is_on: is_on(&io::stdout()), line: Vec::new() }
    }

    /// Marks the lines of a writer to stderr.
    pub(crate) fn stderr(out: W) -> Self {
        Self { out, is_on: is_on(&io::stderr()), line: Vec::new() }
    }
}

impl<W: Write> Write for Marked<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if !self.is_on {
            self.out.write_all(text)?;
            return Ok(text.len());
        }
        for part in text.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.out.write_all(marked(&String::from_utf8_lossy(&line)).as_bytes())?;
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_variables_and_the_terminal() {
        let check = |variables: &[(&str, &str)], is_terminal, expected| {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(decide(variable, is_terminal), expected, "{variables:?} {is_terminal}");
        };
        let xterm = ("TERM", "xterm-256color");
        check(&[xterm], true, true);
        check(&[xterm], false, false);
        check(&[], true, false);
        check(&[("TERM", "dumb")], true, false);
        check(&[xterm, ("NO_COLOR", "1")], true, false);
        check(&[xterm, ("NO_COLOR", "")], true, true);
        check(&[("CLICOLOR_FORCE", "1")], false, true);
        check(&[("CLICOLOR_FORCE", "0")], false, false);
        check(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true, false);
    }

    #[test]
    fn a_colour_repeats_the_first_word_of_a_line_and_adds_no_text() {
        let check = |line, expected: &str| assert_eq!(marked(line), expected);
        check("ok    tests/a.luau: b", "\u{1b}[1;32mok\u{1b}[0m    tests/a.luau: b");
        check("not exact: 1 ingested", "\u{1b}[1;31mnot exact:\u{1b}[0m 1 ingested");
        check("READY, WITH WARNINGS  up 3 s", "\u{1b}[1;33mREADY, WITH WARNINGS\u{1b}[0m  up 3 s");
        check("okay", "okay");
        check("  -> ok: do this", "  -> ok: do this");
    }

    #[test]
    fn a_line_that_is_written_in_pieces_is_marked_once() {
        let mut out = Marked { out: Vec::new(), is_on: true, line: Vec::new() };
        write!(out, "o{}: {}\nnext {}", char::from(b'k'), 1, 2).unwrap();
        out.flush().unwrap();
        assert_eq!(String::from_utf8(out.out).unwrap(), "\u{1b}[1;32mok:\u{1b}[0m 1\nnext 2");
        let mut out = Marked { out: Vec::new(), is_on: false, line: Vec::new() };
        writeln!(out, "ok: 1").unwrap();
        assert_eq!(out.out, b"ok: 1\n");
    }
}
