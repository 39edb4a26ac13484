//! The path of a field in a JSON object: a name, or a JSON Pointer (RFC 6901).

use std::fmt;

/// The path of a field. Two paths are equal if they lead to the same field.
#[derive(Debug, Clone)]
pub struct FieldPath {
    /// The names on the way to the field, without escapes. There is at least one.
    tokens: Vec<String>,
    /// Whether the configuration has a JSON Pointer. Otherwise it has the name of a field.
    is_pointer: bool,
}

impl PartialEq for FieldPath {
    fn eq(&self, other: &Self) -> bool {
        self.tokens == other.tokens
    }
}

impl Eq for FieldPath {}

impl FieldPath {
    /// Returns the path of a field by its name, even if the name begins with `/`.
    pub fn of_name(name: &str) -> Self {
        Self { tokens: vec![name.to_owned()], is_pointer: false }
    }

    /// Reads a path. A text that begins with `/` is a JSON Pointer, and any other text is the name of a
    /// field.
    ///
    /// # Errors
    /// The text is empty, or an escape is invalid.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(pointer) = text.strip_prefix('/') else {
            return if text.is_empty() {
                Err("the name of a field is empty")
            } else {
                Ok(Self::of_name(text))
            };
        };
        let tokens = pointer.split('/').map(unescaped).collect::<Option<_>>();
        let tokens = tokens.ok_or("~ stands only before 0 or 1 in a JSON Pointer (RFC 6901)")?;
        Ok(Self { tokens, is_pointer: true })
    }

    /// Returns the names on the way to the field, without escapes.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the name of the field in its object.
    pub(crate) fn last(&self) -> &str {
        self.tokens.last().map_or("", String::as_str)
    }

    /// Returns the JSON Pointer to a nested field with the same dots, if the path is a name with a dot.
    pub fn dotted(&self) -> Option<String> {
        let name = self.tokens.first().filter(|name| !self.is_pointer && name.contains('.'))?;
        Some(pointer_to(name.split('.')))
    }

    /// Returns the JSON Pointer to the field.
    pub fn pointer(&self) -> String {
        pointer_to(self.tokens.iter().map(String::as_str))
    }

    /// Returns whether the value at this path includes the value at `other`.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        other.tokens.starts_with(&self.tokens)
    }
}

impl fmt::Display for FieldPath {
    /// Writes the text that [`FieldPath::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tokens.as_slice() {
            [name] if !self.is_pointer && !name.is_empty() && !name.starts_with('/') => f.write_str(name),
            _ => f.write_str(&self.pointer()),
        }
    }
}

/// Returns a JSON Pointer (RFC 6901 section 3).
pub(crate) fn pointer_to<'a>(tokens: impl Iterator<Item = &'a str>) -> String {
    tokens.map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Replaces the escapes of a token (RFC 6901 section 4). Returns `None` if an escape is invalid.
fn unescaped(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (character, rest) = match part.as_bytes().first()? {
            b'0' => ('~', &part[1..]),
            b'1' => ('/', &part[1..]),
            _ => return None,
        };
        text.push(character);
        text.push_str(rest);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_name_or_a_pointer_and_reads_back() {
        fn check<const N: usize>(text: &str, tokens: [&str; N]) {
            let path = FieldPath::parse(text).unwrap();
            assert_eq!((path.tokens(), path.to_string().as_str()), (&tokens.map(str::to_owned)[..], text));
        }
        check("a", ["a"]);
        check("a.b", ["a.b"]);
        check("a~b/c", ["a~b/c"]);
        check("/a", ["a"]);
        check("/a/b/0", ["a", "b", "0"]);
        check("/a~1b/~0~01", ["a/b", "~~1"]);
        check("/", [""]);
        for invalid in ["", "/~", "/a~2", "/a/b~"] {
            assert!(FieldPath::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_name_and_a_pointer_to_the_same_field_are_equal() {
        let path = |text| FieldPath::parse(text).unwrap();
        assert_eq!(path("a"), path("/a"));
        assert_eq!(FieldPath::of_name("/a").to_string(), "/~1a");
        assert!(path("a").holds(&path("/a/b")) && !path("/a/b").holds(&path("a")));
        assert!(!path("a").holds(&path("/ab")));
    }

    #[test]
    fn only_a_name_with_a_dot_may_mean_a_nested_field() {
        let dotted = |text| FieldPath::parse(text).unwrap().dotted();
        assert_eq!(dotted("a.b"), Some("/a/b".to_owned()));
        assert_eq!((dotted("a"), dotted("/a.b"), dotted("/a/b")), (None, None, None));
    }
}
