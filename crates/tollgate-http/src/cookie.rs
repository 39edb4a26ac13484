//! Cookies that a client sends (RFC 6265), parsed as leniently as servers do: any text with `=` is a pair.

/// Lists the pairs of one `Cookie` field.
///
/// Blanks around names and values are removed. Values are not changed in any other way, and keep their
/// quotes. A piece without `=` is skipped.
pub fn cookie_pairs(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|byte| *byte == b';').filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((pair[..at].trim_ascii(), pair[at + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_pairs_in_their_order() {
        let check = |line: &str, expect: &[(&str, &str)]| {
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            let pairs = cookie_pairs(line.as_bytes()).map(|(name, value)| (text(name), text(value)));
            assert_eq!(pairs.collect::<Vec<_>>(), expect, "{line}");
        };
        check("a=1; b=x=y;c; =d ;\te = \"f\" ", &[("a", "1"), ("b", "x=y"), ("", "d"), ("e", "\"f\"")]);
        check("", &[]);
        check(";;=;", &[("", "")]);
        check("a=1;a=2", &[("a", "1"), ("a", "2")]);
    }
}
