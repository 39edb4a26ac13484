//! Escapes texts so that they are no markup, and so that reading them returns the same texts.

use crate::characters::allowed_character;

/// The place of a text, which decides the characters to escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between tags.
    Content,
    /// In an attribute value, in either kind of quotes.
    Value,
}

/// Appends a text with its markup escaped. Line ends are escaped where XML would change them.
///
/// # Errors
/// The place of the first character that XML does not allow. A part of the text is appended then.
pub fn escape(text: &str, place: Place, out: &mut Vec<u8>) -> Result<(), usize> {
    let bytes = text.as_bytes();
    let stop = SUSPECT | if place == Place::Content { IN_CONTENT } else { IN_VALUE };
    let (mut plain, mut at) = (0, 0);
    loop {
        let Some(found) = bytes[at..].iter().position(|&byte| CLASSES[usize::from(byte)] & stop != 0) else {
            out.extend_from_slice(&bytes[plain..]);
            return Ok(());
        };
        at += found;
        let replaced: &[u8] = match bytes[at] {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'\'' => b"&#39;",
            b'\t' => b"&#9;",
            b'\n' => b"&#10;",
            b'\r' => b"&#13;",
            _ => {
                at += allowed_character(text, at).ok_or(at)?;
                continue;
            }
        };
        out.extend_from_slice(&bytes[plain..at]);
        out.extend_from_slice(replaced);
        at += 1;
        plain = at;
    }
}

const IN_CONTENT: u8 = 1;
const IN_VALUE: u8 = 2;
/// A character that a document may not contain begins with the byte, or might.
const SUSPECT: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < b' ' {
        classes[byte as usize] = SUSPECT;
        byte += 1;
    }
    classes[0xef] = SUSPECT;
    classes[b'&' as usize] = IN_CONTENT | IN_VALUE;
    classes[b'<' as usize] = IN_CONTENT | IN_VALUE;
    classes[b'>' as usize] = IN_CONTENT | IN_VALUE;
    classes[b'\r' as usize] = IN_CONTENT | IN_VALUE;
    classes[b'"' as usize] = IN_VALUE;
    classes[b'\'' as usize] = IN_VALUE;
    classes[b'\t' as usize] = IN_VALUE;
    classes[b'\n' as usize] = IN_VALUE;
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_line_ends_are_escaped_where_they_have_to_be() {
        let check = |text: &str, place: Place, expected: &str| {
            let mut out = Vec::new();
            escape(text, place, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text:?}");
        };
        check("", Place::Content, "");
        check("a<b>&\"'\r\n\t]]>", Place::Content, "a&lt;b&gt;&amp;\"'&#13;\n\t]]&gt;");
        check("a<b>&\"'\r\n\t", Place::Value, "a&lt;b&gt;&amp;&quot;&#39;&#13;&#10;&#9;");
        check("\u{e9}\u{f000}\u{1f600}", Place::Value, "\u{e9}\u{f000}\u{1f600}");
    }

    #[test]
    fn a_character_that_xml_does_not_allow_is_refused() {
        for (text, at) in [("\0", 0), ("a&\u{b}", 2), ("\u{f000}\u{ffff}", 3), ("\u{fffe}", 0)] {
            assert_eq!(escape(text, Place::Content, &mut Vec::new()), Err(at), "{text:?}");
        }
    }
}
