//! The characters that XML 1.0 allows in documents and in names.

/// Returns whether a document may hold the character (`Char`, production 2).
pub(super) fn is_character(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Returns whether a text is a name (`Name`, production 5).
pub(super) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(begins_name) && characters.all(is_in_name)
}

/// Returns whether a name may begin with the character (`NameStartChar`, production 4).
fn begins_name(character: char) -> bool {
    matches!(character,
        ':' | 'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

/// Returns whether a name may contain the character (`NameChar`, production 4a).
fn is_in_name(character: char) -> bool {
    let is_more = matches!(character,
        '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}');
    is_more || begins_name(character)
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
    }

    #[test]
    fn control_characters_are_none_of_xml() {
        for character in ['\0', '\u{1}', '\u{b}', '\u{1f}', '\u{fffe}', '\u{ffff}'] {
            assert!(!is_character(character), "{character:?}");
        }
        for character in ['\t', '\n', '\r', ' ', '\u{7f}', '\u{85}', '\u{fffd}', '\u{10ffff}'] {
            assert!(is_character(character), "{character:?}");
        }
    }
}
