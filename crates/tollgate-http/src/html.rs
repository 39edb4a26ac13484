//! Escapes for text in HTML pages that a server generates.

/// Returns a text escaped for the content and the quoted attributes of a page.
///
/// Source: HTML standard, section 13.3.
pub fn escaped_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_of_a_text_begins_a_tag_a_reference_or_the_end_of_an_attribute() {
        assert_eq!(escaped_html("<a href='&amp;\">\u{fc}"), "&lt;a href=&#39;&amp;amp;&quot;&gt;\u{fc}");
    }
}
