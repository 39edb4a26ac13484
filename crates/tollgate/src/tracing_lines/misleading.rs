//! Characters that mislead a reader of log lines.

/// Returns whether a character misleads a reader. Some readers treat it as a line end, or it changes the
/// direction of the text (Unicode Standard Annex 9). The remainder of the line would then be read as other
/// text.
pub(crate) const fn is_misleading(character: char) -> bool {
    matches!(
        character,
        '\0' | '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}
