//! Places in a document.

/// A place in a document. All numbers count from 1, in the encoding of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the byte.
    pub byte: u64,
    /// Number of the line. A line ends with a line feed.
    pub line: u64,
    /// Number of the character in its line.
    pub column: u64,
}

/// How many bytes a character has in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Utf8,
    Utf16,
    Latin1,
}

impl Position {
    pub(crate) const START: Self = Self { byte: 1, line: 1, column: 1 };

    /// Returns the place after `text`.
    pub(crate) fn after(self, text: &str, width: Width) -> Self {
        let bytes = match width {
            Width::Utf8 => text.len(),
            Width::Utf16 => text.chars().map(char::len_utf16).sum::<usize>() * 2,
            Width::Latin1 => text.chars().count(),
        };
        let byte = self.byte + bytes as u64;
        match memchr::memrchr(b'\n', text.as_bytes()) {
            None => Self { byte, line: self.line, column: self.column + characters(text) },
            Some(last) => {
                let lines = memchr::memchr_iter(b'\n', &text.as_bytes()[..last]).count() as u64 + 1;
                Self { byte, line: self.line + lines, column: 1 + characters(&text[last + 1..]) }
            }
        }
    }
}

fn characters(text: &str) -> u64 {
    text.chars().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_bytes_lines_and_characters() {
        let check = |text: &str, width: Width, expected: (u64, u64, u64)| {
            let Position { byte, line, column } = Position::START.after(text, width);
            assert_eq!((byte, line, column), expected, "{text:?}");
        };
        check("", Width::Utf8, (1, 1, 1));
        check("ab", Width::Utf8, (3, 1, 3));
        check("a\n\u{e9}b", Width::Utf8, (6, 2, 3));
        check("a\n\u{e9}b", Width::Latin1, (5, 2, 3));
        check("\n\n\u{1f600}", Width::Utf16, (9, 3, 2));
    }
}
