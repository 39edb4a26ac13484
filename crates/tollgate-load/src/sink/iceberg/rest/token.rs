//! Tokens of OAuth 2 for a client and its secret (RFC 6749 section 4.4).

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tollgate_ship::{Secret, WebClient, WebRequest};

use super::encoding::encoded;
use super::error::{CallError, RestError, said};
use crate::sink::iceberg::rest_options::ClientCredentials;

/// Maximum bytes of a token or a secret, and of the answer with a token.
const BYTES_MAX: usize = 64 << 10;
/// A token is renewed when this part of its time is left.
const REST_OF_TIME: u32 = 5;
const ACTION: &str = "get a token";

/// A token of a server.
pub(super) struct Token {
    pub(super) text: Secret,
    /// When the token is renewed. `None`: the server does not say how long it is valid.
    renewed: Option<Instant>,
}

impl Token {
    /// Returns whether the token is soon too old.
    pub(super) fn is_due(&self) -> bool {
        self.renewed.is_some_and(|renewed| renewed <= Instant::now())
    }

    /// Gets a new token at an address.
    pub(super) fn get(
        client: &WebClient,
        options: &ClientCredentials,
        address: &str,
    ) -> Result<Self, RestError> {
        let secret = read_secret(&options.secret_file)?;
        let mut form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}",
            encoded(&options.client_id),
            encoded(secret.reveal())
        );
        if let Some(scope) = &options.scope {
            form.push_str("&scope=");
            form.push_str(&encoded(scope));
        }
        let request = WebRequest {
            method: "POST",
            address,
            fields: &[("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")],
            content: form.into_bytes(),
        };
        let start = Instant::now();
        let answer = client.call(request, None, BYTES_MAX).map_err(|source| CallError::NoAnswer {
            action: ACTION,
            address: address.to_owned(),
            source,
        })?;
        if answer.status != 200 {
            let (text, is_of_catalog) = said(&answer.content, &[secret.reveal()]);
            let (status, address) = (answer.status, address.to_owned());
            return Err(CallError::Status { action: ACTION, address, status, text, is_of_catalog }.into());
        }
        let json: Json = serde_json::from_slice(&answer.content).unwrap_or_default();
        let text = json["access_token"].as_str().filter(|text| is_visible(text)).ok_or_else(|| {
            CallError::Form { action: ACTION, address: address.to_owned(), reason: "has no access_token" }
        })?;
        let valid = json["expires_in"].as_u64().map(Duration::from_secs);
        let renewed = valid.and_then(|valid| start.checked_add(valid - valid / REST_OF_TIME));
        Ok(Self { text: Secret::new(text), renewed })
    }
}

/// Reads a file with a token or a secret.
pub(super) fn read_secret(file: &Path) -> Result<Secret, RestError> {
    let refused = |found| RestError::NoSecret { file: file.to_owned(), found };
    let bytes = std::fs::read(file);
    let bytes = bytes.map_err(|source| RestError::Secret { file: file.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|_| refused("other bytes than text"))?;
    let text = text.trim();
    match text {
        "" => Err(refused("no text")),
        text if text.len() > BYTES_MAX => Err(refused("more than 64 KiB")),
        text if !is_visible(text) => Err(refused("other characters")),
        text => Ok(Secret::new(text)),
    }
}

/// Returns whether a text can be in a field line.
fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}
