//! The caller that credentials prove.

use serde_json::{Map, Value};

/// The scheme that proved who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// A name and a password.
    Basic,
    /// A token from a token file.
    Bearer,
    /// A signed JSON Web Token.
    Jwt,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Bearer, Self::Jwt];

    /// Returns the name of the scheme for scripts, records and the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Bearer => "bearer",
            Self::Jwt => "jwt",
        }
    }
}

/// A caller whose credentials are valid.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// The scheme that proved the identity.
    pub scheme: Scheme,
    /// The name of the caller.
    pub name: String,
    /// The claims of a JSON Web Token. Other schemes have none.
    pub claims: Option<Map<String, Value>>,
}

/// Maximum length of a name in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Returns whether a text can be the name of a caller. A name is forwarded in a header field and written to
/// records, so it has no control characters.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.trim() == text
        && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_without_control_characters() {
        for (text, expected) in [
            ("anna", true),
            ("anna lee", true),
            ("änna", true),
            ("", false),
            (" anna", false),
            ("anna\r\nX: y", false),
            ("a\0", false),
        ] {
            assert_eq!(is_name(text), expected, "{text:?}");
        }
        assert!(is_name(&"n".repeat(NAME_BYTES_MAX)) && !is_name(&"n".repeat(NAME_BYTES_MAX + 1)));
    }
}
