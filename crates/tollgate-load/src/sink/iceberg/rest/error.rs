//! Errors of calls to a REST catalog. The texts have no secret.

use std::path::PathBuf;

use serde_json::Value as Json;
use tollgate_ship::{OpenError, WebError};

/// Maximum bytes of the text of a server in an error.
const TEXT_BYTES_MAX: usize = 300;

/// Why a REST catalog cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestError {
    /// The client cannot be made.
    #[error("the client of the catalog cannot be made")]
    Open(#[source] OpenError),
    /// The token or the secret cannot be read.
    #[error("cannot read {}", file.display())]
    Secret {
        /// The file of the token or the secret.
        file: PathBuf,
        /// Error of the file.
        source: std::io::Error,
    },
    /// The token or the secret is no text of visible characters.
    #[error("{} has {found}, allowed is one line of visible ASCII characters", file.display())]
    NoSecret {
        /// The file of the token or the secret.
        file: PathBuf,
        /// The difference.
        found: &'static str,
    },
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// There is no answer. It is unknown whether the call had its effect.
    #[error("cannot {action} at {address}")]
    NoAnswer {
        /// The failed action.
        action: &'static str,
        /// The address of the server.
        address: String,
        /// Error of the connection.
        source: WebError,
    },
    /// The server answers with an error.
    #[error("cannot {action}: {address} answers {status}{text}")]
    Status {
        /// The failed action.
        action: &'static str,
        /// The address of the server.
        address: String,
        /// The status.
        status: u16,
        /// What the server says, after a colon and a space.
        text: String,
        /// Whether the error has the form of a REST catalog, and so does not come from another program at
        /// this address.
        is_of_catalog: bool,
    },
    /// The answer has another form.
    #[error("cannot {action}: the answer of {address} {reason}")]
    Form {
        /// The failed action.
        action: &'static str,
        /// The address of the server.
        address: String,
        /// What is wrong.
        reason: &'static str,
    },
}

/// Returns what a server says in an error, and whether the error has the form of a REST catalog.
pub(super) fn said(content: &[u8], secrets: &[&str]) -> (String, bool) {
    let json: Json = serde_json::from_slice(content).unwrap_or_default();
    let part = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let error = &json["error"];
    let is_of_catalog = error.is_object();
    let (kind, message) = match is_of_catalog {
        true => (part(&error["type"]), part(&error["message"])),
        // RFC 6749 section 5.2.
        false => (part(error), part(&json["error_description"])),
    };
    let words: Vec<_> = [kind, message].into_iter().filter(|part| !part.is_empty()).collect();
    let text = words.iter().fold(String::new(), |text, part| format!("{text}: {part}"));
    (shown(text, secrets), is_of_catalog)
}

/// Returns a text of a server on one line, without secrets, and cut.
fn shown(mut text: String, secrets: &[&str]) -> String {
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = without(&text.replace(secret, "***"), secret);
    }
    let mut text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str("...");
    }
    text
}

/// Returns a text with `***` for each secret, whose characters may be percent-encoded.
fn without(text: &str, secret: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = after(rest, secret) {
            kept.push_str("***");
            rest = after;
        } else {
            kept.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    kept
}

/// Returns what follows a secret at the begin of a text.
fn after<'t>(text: &'t str, secret: &str) -> Option<&'t str> {
    secret.bytes().try_fold(text, |rest, byte| {
        let code = rest.strip_prefix('%').and_then(|code| code.get(..2));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(found) if found == byte => rest.get(3..),
            _ => (rest.as_bytes().first() == Some(&byte)).then(|| rest.get(1..))?,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_short_and_has_no_secret() {
        let catalog = br#"{"error":{"message":"no \n sesame","type":"NotAuthorizedException","code":401}}"#;
        let cases: [(&[u8], &str, bool); 4] = [
            (catalog, ": NotAuthorizedException: no   ***", true),
            (br#"{"error":"invalid_client","error_description":"x"}"#, ": invalid_client: x", false),
            (br#"{"error":"invalid_client"}"#, ": invalid_client", false),
            (b"<html>", "", false),
        ];
        for (content, text, is_of_catalog) in cases {
            assert_eq!(said(content, &["sesame", ""]), (text.to_owned(), is_of_catalog));
        }
        // Each character of a secret may be encoded, with large or small letters.
        let encoded = r#"{"error":"s/+%73%2f%2B %5 s%2F%2B%7 %ä"}"#;
        assert_eq!(said(encoded.as_bytes(), &["s/+"]).0, ": ****** %5 ***%7 %ä");
        assert_eq!(said(br#"{"error":"a%25b a%2525b"}"#, &["a%25b"]).0, ": *** ***");
        let long = format!(r#"{{"error":"{}"}}"#, "ä".repeat(1_000));
        assert!(said(long.as_bytes(), &[]).0.len() <= TEXT_BYTES_MAX + 3);
    }
}
