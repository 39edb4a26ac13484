//! References: the five predefined entities, and characters by their numbers.

use crate::characters::{end_of_ncname, is_character};
use crate::error::XmlErrorKind::Malformed;
use crate::error::{AtFault, Fault, Result};

/// A reference that was read.
pub(crate) struct Reference {
    pub(crate) character: char,
    /// Length with `&` and `;`.
    pub(crate) length: usize,
}

/// Reads the reference at `at`, where a `&` stands. `None` if the text ends within it.
///
/// # Errors
/// The reference is unknown, malformed, or longer than `bytes_max`.
pub(crate) fn reference(text: &str, at: usize, bytes_max: usize) -> Result<Option<Reference>> {
    let bytes = text.as_bytes();
    if let Some(found) = predefined(&bytes[at..]).filter(|found| found.length <= bytes_max) {
        return Ok(Some(found));
    }
    let Some(&next) = bytes.get(at + 1) else { return Ok(None) };
    let end = if next == b'#' {
        let digits = bytes[at + 2..].iter().position(|byte| !byte.is_ascii_alphanumeric());
        digits.map_or(bytes.len(), |found| at + 2 + found)
    } else {
        end_of_ncname(text, at + 1)
            .map_err(|at| Fault::malformed(text, at, "a reference without a name", ALLOWED))?
    };
    if end - at > bytes_max {
        return Err(Fault::limit(at, format!("a reference longer than {bytes_max} bytes")));
    }
    match bytes.get(end) {
        None => Ok(None),
        Some(b';') => match character_of(&text[at + 1..end]) {
            Some(character) => Ok(Some(Reference { character, length: end + 1 - at })),
            None => {
                let reason = format!("the reference {} is unknown", &text[at..=end]);
                Err(Fault::new(Malformed, at, reason, AtFault::InReason, ALLOWED))
            }
        },
        Some(_) => Err(Fault::malformed(text, end, "a reference without a semicolon", "a semicolon")),
    }
}

/// Returns the predefined entity at the start of the bytes, if there is one (section 4.6).
#[inline]
pub(crate) fn predefined(bytes: &[u8]) -> Option<Reference> {
    let (character, length) = match bytes {
        [b'&', b'a', b'm', b'p', b';', ..] => ('&', 5),
        [b'&', b'l', b't', b';', ..] => ('<', 4),
        [b'&', b'g', b't', b';', ..] => ('>', 4),
        [b'&', b'q', b'u', b'o', b't', b';', ..] => ('"', 6),
        [b'&', b'a', b'p', b'o', b's', b';', ..] => ('\'', 6),
        _ => return None,
    };
    Some(Reference { character, length })
}

/// Returns the character of a numeric reference without `&` and `;`.
fn character_of(name: &str) -> Option<char> {
    let number = name.strip_prefix('#')?;
    let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |digits| (digits, 16));
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let digits = digits.trim_start_matches('0');
    let code = u32::from_str_radix(digits, radix).ok().filter(|_| is_number)?;
    char::from_u32(code).filter(|character| is_character(*character))
}

const ALLOWED: &str = "&amp; &lt; &gt; &quot; &apos; and the number of a character";
