//! Names of XML: which characters they have.

/// The namespace of the prefix `xml`.
pub(crate) const XML: &str = "http://www.w3.org/XML/1998/namespace";

/// Whether `text` is an `NCName`: a name without a colon (Namespaces in XML, section 3).
pub(crate) fn is_ncname(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(is_ncname_start) && characters.all(is_ncname_character)
}

/// Whether `text` is a `Name` of XML, which may contain colons.
pub(crate) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c == ':' || is_ncname_start(c))
        && characters.all(|c| c == ':' || is_ncname_character(c))
}

/// Whether `text` is an `Nmtoken` of XML.
pub(crate) fn is_nmtoken(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c == ':' || is_ncname_character(c))
}

/// `NameStartChar` of XML 1.0, fifth edition, without the colon.
pub(crate) fn is_ncname_start(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic() || c == '_';
    }
    matches!(c, '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}'
        | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// `NameChar` of XML 1.0, fifth edition, without the colon.
pub(crate) fn is_ncname_character(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    }
    is_ncname_start(c) || matches!(c, '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Whether `c` is white space of XML.
pub(crate) const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Whether `text` contains only white space of XML.
pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Returns `text` without white space of XML at both ends.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Returns the words between white space of XML.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Returns the words with one space between them.
pub(crate) fn collapsed(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for word in words(text) {
        if !result.is_empty() {
            result.push(' ');
        }
        result.push_str(word);
    }
    result
}

/// Whether two short texts are the same. This needs no call of a library function, whose start costs more
/// than the comparison of a name.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let ((words, rest), (other_words, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    words.iter().zip(other_words).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b))
        && rest.iter().zip(other_rest).all(|(a, b)| a == b)
}

/// Returns a hash of a name. Only names of a schema are in the tables, so that a document cannot fill them.
pub(crate) fn hash(name: &str) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let start = FACTOR ^ rest.iter().fold(name.len() as u64, |hash, byte| hash << 8 ^ u64::from(*byte));
    let hash = words
        .iter()
        .fold(start, |hash, word| (hash.rotate_left(5) ^ u64::from_ne_bytes(*word)).wrapping_mul(FACTOR));
    hash.wrapping_mul(FACTOR)
}
