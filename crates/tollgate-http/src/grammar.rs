//! Table of byte classes, and the scans that use it. Only this file says which byte is allowed where.
//!
//! Each class is one bit, so that one load answers all questions about a byte.

/// `tchar` of RFC 9110 section 5.6.2: methods, connection options, coding names.
pub(crate) const TOKEN: u8 = 1;
/// Byte of a field name that we accept from a peer: `tchar` without `_`.
pub(crate) const FIELD_NAME: u8 = 1 << 1;
/// Byte of a path in a request target.
pub(crate) const PATH: u8 = 1 << 2;
/// Byte of a query in a request target.
pub(crate) const QUERY: u8 = 1 << 3;
/// Byte of a `reg-name` without `pct-encoded` (RFC 3986 section 3.2.2), and without the comma.
pub(crate) const REG_NAME: u8 = 1 << 4;
/// Byte of a path or query that RFC 3986 allows there. Such a byte goes to a backend unescaped.
pub(crate) const URI: u8 = 1 << 5;
/// SP or HTAB.
pub(crate) const BLANK: u8 = 1 << 6;
/// Byte of a path that is neither a part of an escape nor a part of a dot segment.
pub(crate) const PLAIN_PATH: u8 = 1 << 7;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = classes_of(byte as u8);
        byte += 1;
    }
    table
}

const fn classes_of(byte: u8) -> u8 {
    let mut classes = 0;
    if is_tchar(byte) {
        classes |= TOKEN;
        if byte != b'_' {
            classes |= FIELD_NAME;
        }
    }
    if byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>') {
        classes |= QUERY;
        if !matches!(byte, b'?' | b'\\' | b'^' | b'`' | b'{' | b'}') {
            classes |= PATH;
            if !matches!(byte, b'%' | b'.') {
                classes |= PLAIN_PATH;
            }
        }
        if !matches!(byte, b'\\' | b'^' | b'`' | b'{' | b'}' | b'|' | b'[' | b']') {
            classes |= URI;
        }
    }
    if byte.is_ascii_alphanumeric() || is_reg_name_mark(byte) {
        classes |= REG_NAME;
    }
    if matches!(byte, b' ' | b'\t') {
        classes |= BLANK;
    }
    classes
}

const fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+')
        || matches!(byte, b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

const fn is_reg_name_mark(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+')
        || matches!(byte, b';' | b'=')
}

/// Returns whether `byte` belongs to `class`.
#[inline]
pub(crate) fn is(class: u8, byte: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}

/// Finds the first byte outside `class`.
#[inline]
pub(crate) fn first_outside(class: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| !is(class, byte))
}

/// Counts the bytes at the front that belong to `class`, and returns the classes that all of them share.
#[inline]
pub(crate) fn run_of(class: u8, bytes: &[u8]) -> (usize, u8) {
    let mut common = u8::MAX;
    for (len, &byte) in bytes.iter().enumerate() {
        let classes = CLASSES[usize::from(byte)];
        if classes & class == 0 {
            return (len, common);
        }
        common &= classes;
    }
    (bytes.len(), common)
}

/// Returns whether all bytes belong to `class`.
///
/// The loop has no early exit, because a plain loop is faster for short texts, and most texts are short.
#[inline]
pub(crate) fn are_all(class: u8, bytes: &[u8]) -> bool {
    bytes.iter().fold(class, |common, &byte| common & CLASSES[usize::from(byte)]) != 0
}

/// Returns whether `bytes` is a token: at least one `tchar` (RFC 9110 section 5.6.2).
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && are_all(TOKEN, bytes)
}

/// Returns whether `byte` is allowed in a field value: HTAB, SP, VCHAR or obs-text (RFC 9110 section 5.5).
#[inline]
pub(crate) fn is_field_content(byte: u8) -> bool {
    (byte >= b' ' || byte == b'\t') && byte != 0x7f
}

/// Returns whether all bytes are allowed in a field value.
///
/// The bytes are checked one by one only if a word of eight bytes holds a control.
#[inline]
pub(crate) fn is_all_field_content(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    // The last word overlaps the word before it, and covers the bytes after the last whole word.
    let end = if words.is_empty() { None } else { bytes.last_chunk::<8>() };
    let has_control = match end {
        Some(end) => words.iter().chain([end]).any(|word| holds_control(u64::from_ne_bytes(*word))),
        None => !rest.iter().all(|&byte| is_field_content(byte)),
    };
    !has_control || bytes.iter().all(|&byte| is_field_content(byte))
}

/// Counts the bytes at the front that are allowed in a field value.
///
/// HTAB may end the count early. The slower parser then handles the line. The slower parser costs little
/// because HTAB is rare.
#[inline]
pub(crate) fn run_of_field_content(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let controls = controls(u64::from_le_bytes(*word));
        if controls != 0 {
            // The lowest mark belongs to the first control. A carry can only set wrong marks above this mark.
            return place * 8 + controls.trailing_zeros() as usize / 8;
        }
    }
    let run = rest.iter().position(|&byte| !is_field_content(byte)).unwrap_or(rest.len());
    words.len() * 8 + run
}

/// Returns whether one of eight bytes is DEL or below SP.
#[inline]
fn holds_control(word: u64) -> bool {
    controls(word) != 0
}

/// Sets the highest bit of each of eight bytes that is DEL or below SP.
///
/// The lowest mark is right. A mark above it may result from a carry.
///
/// Source: Anderson, "Bit Twiddling Hacks", `hasless` and `hasvalue`.
#[inline]
fn controls(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH_BITS: u64 = ONES << 7;
    let below_space = word.wrapping_sub(ONES * u64::from(b' ')) & !word;
    let differs_from_delete = word ^ (ONES * 0x7f);
    let is_delete = differs_from_delete.wrapping_sub(ONES) & !differs_from_delete;
    (below_space | is_delete) & HIGH_BITS
}

/// Removes only SP and HTAB from both ends (RFC 9110 section 5.6.3).
#[inline]
pub(crate) fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is(BLANK, *first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is(BLANK, *last)
    {
        bytes = rest;
    }
    bytes
}

/// Returns the value of a hexadecimal digit.
#[inline]
pub(crate) fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends the escape `%HH` of a byte (RFC 3986 section 2.1).
pub(crate) fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX_DIGITS[usize::from(digit)]);
    out.extend_from_slice(&[b'%', high, low]);
}

/// Decodes the escape `%HH` at the front of `bytes`.
pub(crate) fn percent_escape(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] => Some(hex_value(*high)? << 4 | hex_value(*low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(class: u8) -> String {
        (0..=255u8).filter(|&byte| is(class, byte)).map(char::from).collect()
    }

    #[test]
    fn classes_hold_exactly_the_bytes_of_the_rfc() {
        let check = |class, expect: &str| {
            let mut expect: Vec<char> = expect.chars().collect();
            expect.extend(('0'..='9').chain('A'..='Z').chain('a'..='z'));
            expect.sort_unstable();
            assert_eq!(members(class), expect.into_iter().collect::<String>());
        };
        check(TOKEN, "!#$%&'*+-.^_`|~");
        check(FIELD_NAME, "!#$%&'*+-.^`|~");
        check(REG_NAME, "-._~!$&'()*+;=");
        check(PATH, "-._~!$&'()*+,;=:@/%|[]");
        check(PLAIN_PATH, "-_~!$&'()*+,;=:@/|[]");
        check(QUERY, "-._~!$&'()*+,;=:@/%?|[]\\^`{}");
        check(URI, "-._~!$&'()*+,;=:@/%?");
        assert_eq!(members(BLANK), "\t ");
    }

    #[test]
    fn a_run_of_field_content_ends_at_the_first_control() {
        for byte in 0..=255u8 {
            for place in 0..20 {
                let mut bytes = *b"a \xff~! \x80bcdefghijklmn";
                bytes[place] = byte;
                let expect = if is_field_content(byte) { bytes.len() } else { place };
                let found = run_of_field_content(&bytes);
                assert!(found == expect || (byte == b'\t' && found == place), "{byte} at {place}: {found}");
            }
        }
        assert_eq!(run_of_field_content(b"12345678\r\n\x7f\0\0\0\0\0"), 8);
    }

    #[test]
    fn a_run_tells_what_its_bytes_have_in_common() {
        let check = |bytes: &[u8], len, is_plain| {
            let (found, classes) = run_of(PATH, bytes);
            assert_eq!((found, classes & PLAIN_PATH != 0), (len, is_plain), "{}", bytes.escape_ascii());
        };
        check(b"/a/b c", 4, true);
        check(b"/a.b?", 4, false);
        check(b"/%20", 4, false);
        check(b"/a", 2, true);
        check(b"", 0, true);
    }

    #[test]
    fn blanks_are_space_and_tab_only() {
        let check = |input: &[u8], expect: &[u8]| assert_eq!(trim_blanks(input), expect);
        check(b"", b"");
        check(b" \t ", b"");
        check(b"\ta b ", b"a b");
        check(b"\xa0a\x85", b"\xa0a\x85");
        check(b"\x0ba\x0c", b"\x0ba\x0c");
    }
}
