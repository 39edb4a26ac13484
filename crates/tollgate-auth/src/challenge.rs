//! Values of `WWW-Authenticate`, which tell a client how to prove who it is.

/// Returns whether a text can be a realm: printable ASCII without `"` and `\`.
pub fn is_realm(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\')
}

/// Returns the challenge for names and passwords (RFC 7617 section 2). `charset` says that both are UTF-8.
pub fn basic_challenge(realm: &str) -> String {
    format!("Basic realm=\"{realm}\", charset=\"UTF-8\"")
}

/// Returns the challenge for tokens (RFC 6750 section 3). `error` is one of its codes, with a description. A
/// request without credentials gets no code.
pub fn bearer_challenge(realm: &str, error: Option<(&str, &str)>) -> String {
    match error {
        None => format!("Bearer realm=\"{realm}\""),
        Some((code, text)) => {
            format!("Bearer realm=\"{realm}\", error=\"{code}\", error_description=\"{text}\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_have_the_form_of_their_rfcs() {
        assert_eq!(basic_challenge("staff"), "Basic realm=\"staff\", charset=\"UTF-8\"");
        assert_eq!(bearer_challenge("staff", None), "Bearer realm=\"staff\"");
        assert_eq!(
            bearer_challenge("staff", Some(("invalid_token", "the token has expired"))),
            "Bearer realm=\"staff\", error=\"invalid_token\", error_description=\"the token has expired\""
        );
    }

    #[test]
    fn a_realm_needs_no_escapes() {
        assert!(is_realm("Staff only: area 1") && is_realm(""));
        assert!(!is_realm("a\"b") && !is_realm("a\\b") && !is_realm("a\nb") && !is_realm("ä"));
    }
}
