//! Reads the field `Authorization` of a request (RFC 9110 section 11.6.2).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::identity::is_name;

/// Maximum length of a field value in bytes. A longer value is refused before it is decoded.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// The credentials of a request. `Debug` shows neither password nor token.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A name and a password (RFC 7617).
    Basic {
        /// The name of the user.
        name: String,
        /// The password, in UTF-8.
        password: String,
    },
    /// A token (RFC 6750).
    Bearer(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic(***)",
            Self::Bearer(_) => "Bearer(***)",
        })
    }
}

/// Reason why a request has no usable credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsFault {
    /// The request has no field.
    #[error("the request has no credentials")]
    Missing,
    /// The request has several fields, so the caller is not certain.
    #[error("the request has more than one Authorization field")]
    Repeated,
    /// The scheme is neither Basic nor Bearer.
    #[error("the scheme of the credentials is neither Basic nor Bearer")]
    Scheme,
    /// The value is longer than 8 KiB.
    #[error("the credentials are too long, limit 8192 bytes")]
    TooLong,
    /// The value does not have the form of its scheme.
    #[error("the credentials do not have the form of their scheme")]
    Malformed,
}

/// Reads the values of all `Authorization` fields of a request.
///
/// # Errors
/// There is no field, or more than one, or its value is malformed.
pub fn credentials<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Result<Credentials, CredentialsFault> {
    let value = values.next().ok_or(CredentialsFault::Missing)?;
    if values.next().is_some() {
        return Err(CredentialsFault::Repeated);
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(CredentialsFault::TooLong);
    }
    let value = std::str::from_utf8(value).map_err(|_| CredentialsFault::Malformed)?;
    let (scheme, rest) = value.split_once(' ').ok_or(CredentialsFault::Malformed)?;
    // RFC 9110 section 11.1: the name of a scheme ignores case.
    let rest = rest.trim_start_matches(' ');
    if scheme.eq_ignore_ascii_case("basic") {
        basic(rest)
    } else if scheme.eq_ignore_ascii_case("bearer") {
        if is_token(rest) {
            Ok(Credentials::Bearer(rest.to_owned()))
        } else {
            Err(CredentialsFault::Malformed)
        }
    } else {
        Err(CredentialsFault::Scheme)
    }
}

/// RFC 7617 section 2: the name ends at the first colon, and control characters are not allowed.
fn basic(encoded: &str) -> Result<Credentials, CredentialsFault> {
    let decoded = STANDARD.decode(encoded).map_err(|_| CredentialsFault::Malformed)?;
    let text = String::from_utf8(decoded).map_err(|_| CredentialsFault::Malformed)?;
    let (name, password) = text.split_once(':').ok_or(CredentialsFault::Malformed)?;
    if !is_name(name) || password.chars().any(char::is_control) {
        return Err(CredentialsFault::Malformed);
    }
    Ok(Credentials::Basic { name: name.to_owned(), password: password.to_owned() })
}

/// Returns whether a text has the syntax `token68` of RFC 9110 section 11.2.
fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Credentials, CredentialsFault> {
        credentials(values.iter().map(|value| value.as_bytes()))
    }

    fn basic(name: &str, password: &str) -> Result<Credentials, CredentialsFault> {
        Ok(Credentials::Basic { name: name.to_owned(), password: password.to_owned() })
    }

    fn encoded(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[test]
    fn the_field_is_read_by_its_scheme() {
        use CredentialsFault::{Malformed, Missing, Repeated, Scheme, TooLong};
        let bearer = |token: &str| Ok(Credentials::Bearer(token.to_owned()));
        let long = format!("Bearer {}", "a".repeat(VALUE_BYTES_MAX));
        for (values, expected) in [
            (&[][..], Err(Missing)),
            // RFC 7617 section 2.
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="], basic("Aladdin", "open sesame")),
            (&["bASIC QWxhZGRpbjpvcGVuIHNlc2FtZQ=="], basic("Aladdin", "open sesame")),
            // RFC 7617 section 2.1: the password is "123" and a pound sign in UTF-8.
            (&["Basic dGVzdDoxMjPCow=="], basic("test", "123£")),
            (&[&encoded("a:b:c")], basic("a", "b:c")),
            (&[&encoded("a:")], basic("a", "")),
            (&[&encoded(":b")], Err(Malformed)),
            (&[&encoded("ab")], Err(Malformed)),
            (&[&encoded("a:b\n")], Err(Malformed)),
            // Padding is missing, or too long, or the last bits are not zero, or bytes follow.
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ"], Err(Malformed)),
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==="], Err(Malformed)),
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZR=="], Err(Malformed)),
            (&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ== x"], Err(Malformed)),
            (&["Basic"], Err(Malformed)),
            (&["Basic "], Err(Malformed)),
            (&["Bearer abc.def-_~+/=="], bearer("abc.def-_~+/==")),
            (&["Bearer  abc"], bearer("abc")),
            (&["Bearer a b"], Err(Malformed)),
            (&["Bearer a,b"], Err(Malformed)),
            (&["Bearer =="], Err(Malformed)),
            (&["Bearer \u{e4}"], Err(Malformed)),
            (&[&long], Err(TooLong)),
            (&["Digest username=\"a\""], Err(Scheme)),
            (&["Bearer a", "Bearer a"], Err(Repeated)),
        ] {
            assert_eq!(read(values), expected, "{values:?}");
        }
        assert_eq!(credentials([&b"Bearer \xff"[..]].into_iter()), Err(Malformed));
    }

    #[test]
    fn debug_output_has_no_secret() {
        let shown = format!("{:?} {:?}", read(&["Bearer secret"]), read(&[&encoded("a:secret")]));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
