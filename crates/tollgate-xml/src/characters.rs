//! The characters that XML 1.0 allows in documents and in names, and the search for the end of a name.

/// Returns whether a document may contain the character (`Char`, production 2).
pub fn is_character(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Returns whether a text is a name (`Name`, production 5).
pub fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first == ':' || begins_name(first))
        && characters.all(|next| next == ':' || is_in_name(next))
}

/// Returns whether a text is a name without a colon (`NCName` of Namespaces in XML 1.0).
pub fn is_ncname(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(begins_name) && characters.all(is_in_name)
}

/// Returns whether a byte is white space (`S`, production 3).
pub const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns whether a name without a colon may begin with the character (`NameStartChar`, production 4).
fn begins_name(character: char) -> bool {
    matches!(character,
        'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

/// Returns whether a name without a colon may contain the character (`NameChar`, production 4a).
fn is_in_name(character: char) -> bool {
    let is_more = matches!(character,
        '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}');
    is_more || begins_name(character)
}

/// A name may begin with the byte.
const NAME_START: u8 = 1;
/// A name may contain the byte. Bytes from 0x80 on are decided by their character.
const NAME: u8 = 2;
/// White space.
const SPACE: u8 = 4;
/// A scan of text stops at the byte.
const TEXT_STOP: u8 = 8;
/// A scan of an attribute value in `"` stops at the byte.
const QUOTED_STOP: u8 = 16;
/// A scan of an attribute value in `'` stops at the byte.
const APOSTROPHE_STOP: u8 = 32;
/// The byte is a character that a document may not contain, or begins U+FFFE or U+FFFF.
const SUSPECT: u8 = 64;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "the loop ends at 255")]
        let character = byte as u8;
        let mut class = 0;
        if character.is_ascii_alphabetic() || character == b'_' {
            class |= NAME_START | NAME;
        }
        if character.is_ascii_digit() || matches!(character, b'-' | b'.') {
            class |= NAME;
        }
        if is_space(character) {
            class |= SPACE | if character == b' ' { 0 } else { QUOTED_STOP | APOSTROPHE_STOP };
        }
        let is_suspect = (character < b' ' && !is_space(character)) || character == 0xef;
        if is_suspect {
            class |= SUSPECT | TEXT_STOP | QUOTED_STOP | APOSTROPHE_STOP;
        }
        if matches!(character, b'<' | b'&') {
            class |= TEXT_STOP | QUOTED_STOP | APOSTROPHE_STOP;
        }
        class |= match character {
            b'>' | b'\r' => TEXT_STOP,
            b'"' => QUOTED_STOP,
            b'\'' => APOSTROPHE_STOP,
            _ => 0,
        };
        classes[byte] = class;
        byte += 1;
    }
    classes
};

/// Returns the first place from `at` on where text needs a decision, or the length.
#[inline]
pub(crate) fn end_of_plain_text(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let stops = text_stops(u64::from_le_bytes(*word));
        if stops == 0 {
            at += word.len();
            continue;
        }
        at += stops.trailing_zeros() as usize / 8;
        if CLASSES[usize::from(bytes[at])] & TEXT_STOP != 0 {
            return at;
        }
        at += 1;
    }
    end_of_run(bytes, at, TEXT_STOP)
}

/// Marks the bytes of a word that a scan of text stops at, and tabs and line feeds, by their highest bit. The
/// lowest mark is right. Marks above it may be wrong.
#[inline]
fn text_stops(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    // `<` and `>` differ in one bit.
    let brackets = equal(word | (ONES * u64::from(b'<' ^ b'>')), b'>');
    (below(word, b' ') | brackets | equal(word, b'&') | equal(word, 0xef)) & HIGHEST
}

/// Returns the first place from `at` on where an attribute value in `quote` needs a decision, or the length.
#[inline]
pub(crate) fn end_of_plain_value(bytes: &[u8], at: usize, quote: u8) -> usize {
    end_of_run(bytes, at, if quote == b'"' { QUOTED_STOP } else { APOSTROPHE_STOP })
}

/// Returns the first place from `at` on without white space, or the length.
#[inline]
pub(crate) fn end_of_space(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while bytes.get(at).is_some_and(|&byte| CLASSES[usize::from(byte)] & SPACE != 0) {
        at += 1;
    }
    at
}

#[inline]
fn end_of_run(bytes: &[u8], at: usize, stop: u8) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .position(|&byte| CLASSES[usize::from(byte)] & stop != 0)
        .map_or(bytes.len(), |found| at + found)
}

/// Returns the length of the character at `at` if a document may contain it. Call this where a scan stopped
/// at a suspect byte.
#[inline]
pub(crate) fn allowed_character(text: &str, at: usize) -> Option<usize> {
    let bytes = &text.as_bytes()[at..];
    match bytes {
        [0xef, 0xbf, 0xbe | 0xbf, ..] => None,
        [0xef, ..] => Some(3),
        [byte, ..] if CLASSES[usize::from(*byte)] & SUSPECT != 0 => None,
        _ => Some(1),
    }
}

/// Returns the first place of `text` with a character that a document may not contain.
pub(crate) fn refused_character(text: &str, from: usize, end: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(found) = bytes[at..end].iter().position(|&byte| CLASSES[usize::from(byte)] & SUSPECT != 0)
    {
        match allowed_character(text, at + found) {
            Some(length) => at += found + length,
            None => return Some(at + found),
        }
    }
    None
}

/// The place of a name with an optional prefix in a text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameSpan {
    pub(crate) start: usize,
    /// Place of the colon, or `start` without a prefix.
    pub(crate) colon: usize,
    /// First place after the name.
    pub(crate) end: usize,
}

/// Finds the end of a name with an optional prefix (`QName`).
///
/// The name may be longer if it ends where the text ends.
///
/// # Errors
/// The place of the character that does not fit.
#[inline]
pub(crate) fn scan_name(text: &str, start: usize) -> Result<NameSpan, usize> {
    let end = end_of_ncname(text, start)?;
    if text.as_bytes().get(end) != Some(&b':') {
        return Ok(NameSpan { start, colon: start, end });
    }
    let colon = end;
    let end = end_of_ncname(text, colon + 1)?;
    if text.as_bytes().get(end) == Some(&b':') { Err(end) } else { Ok(NameSpan { start, colon, end }) }
}

/// Finds the end of a name with an optional prefix, if it has only characters of ASCII and the text goes on
/// after it. `None` for each other name, valid or not.
#[inline(always)]
pub(crate) fn scan_plain_name(bytes: &[u8], start: usize) -> Option<NameSpan> {
    let plain = |start: usize| {
        let begins = CLASSES[usize::from(*bytes.get(start)?)] & NAME_START != 0;
        begins.then(|| end_of_name_bytes(bytes, start + 1))
    };
    let (mut colon, mut end) = (start, plain(start)?);
    if *bytes.get(end)? == b':' {
        (colon, end) = (end, plain(end + 1)?);
    }
    let next = *bytes.get(end)?;
    (next < 0x80 && next != b':').then_some(NameSpan { start, colon, end })
}

/// Finds the end of a name without a colon.
///
/// # Errors
/// The place of a character that cannot begin a name.
#[inline]
pub(crate) fn end_of_ncname(text: &str, start: usize) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let Some(&first) = bytes.get(start) else { return Ok(start) };
    if CLASSES[usize::from(first)] & NAME_START == 0 {
        return end_of_wide_name(text, start);
    }
    let end = end_of_name_bytes(bytes, start + 1);
    match bytes.get(end) {
        Some(&byte) if byte >= 0x80 => Ok(end_of_name_characters(text, end)),
        _ => Ok(end),
    }
}

#[inline]
fn end_of_name_bytes(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let found = rest.iter().position(|&byte| CLASSES[usize::from(byte)] & NAME == 0);
    found.map_or(bytes.len(), |found| at + found)
}

/// Finds the end of a name without a colon whose first character is not of ASCII.
#[cold]
fn end_of_wide_name(text: &str, start: usize) -> Result<usize, usize> {
    match text[start..].chars().next().filter(|&first| begins_name(first)) {
        Some(first) => Ok(end_of_name_characters(text, start + first.len_utf8())),
        None => Err(start),
    }
}

#[cold]
fn end_of_name_characters(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    at + rest.find(|character: char| !is_in_name(character)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_letters() {
        for name in ["a", "_", ":x", "soap:Body", "a-1.b", "\u{e9}t\u{e9}", "\u{10000}"] {
            assert!(is_name(name), "{name}");
        }
        for name in
            ["", "1a", "-a", ".a", "a b", "a\t", "a<", "a>b", "a/", "a=\"", "\u{d7}", "a\u{37e}", "&a;"]
        {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_ncname("a") && !is_ncname("a:b") && !is_ncname(":"));
    }

    #[test]
    fn control_characters_are_none_of_xml() {
        for character in ['\0', '\u{1}', '\u{b}', '\u{1f}', '\u{fffe}', '\u{ffff}'] {
            assert!(!is_character(character), "{character:?}");
            let text = format!("a{character}");
            assert_eq!(refused_character(&text, 0, text.len()), Some(1), "{character:?}");
        }
        for character in ['\t', '\n', '\r', ' ', '\u{7f}', '\u{85}', '\u{fffd}', '\u{10ffff}', '\u{f000}'] {
            assert!(is_character(character), "{character:?}");
            let text = format!("a{character}");
            assert_eq!(refused_character(&text, 0, text.len()), None, "{character:?}");
        }
    }

    #[test]
    fn the_table_of_bytes_agrees_with_the_rules_of_names() {
        for character in '\0'..='\u{ffff}' {
            let text = format!("{character}");
            assert_eq!(end_of_ncname(&text, 0).is_ok(), begins_name(character), "{character:?}");
            let text = format!("a{character} ");
            let expected = if is_in_name(character) { text.len() - 1 } else { 1 };
            assert_eq!(end_of_ncname(&text, 0), Ok(expected), "{character:?}");
        }
    }
}
