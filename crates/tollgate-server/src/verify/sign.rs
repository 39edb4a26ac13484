//! Signs a request of a test as the partner would sign it.

use std::time::Duration;

use tollgate_http::{RequestHead, UriScheme};
use tollgate_signature::Hmac;

use super::fault::SignatureFault;
use super::form::{is_form, sorted_fields};
use crate::options::{MessagePart, SignatureKind, VerifyKeys, VerifySpec};

impl VerifySpec {
    /// Returns the header fields that a partner would add to a request. `secret` replaces the first secret of
    /// the route. The head has all other fields of the message.
    ///
    /// # Errors
    /// The route has public keys, or the head lacks a field of the message.
    pub(crate) fn sign(
        &self,
        head: &RequestHead,
        scheme: UriScheme,
        content: &[u8],
        now: Duration,
        secret: Option<&[u8]>,
    ) -> Result<Vec<(String, String)>, String> {
        let (SignatureKind::Hmac(hash), VerifyKeys::Secrets(secrets)) =
            (self.scheme.algorithm.kind(), &self.keys)
        else {
            return Err("the route has public keys: give the header fields of a real request".to_owned());
        };
        let own = secrets.first().map(|secret| secret.0.as_slice());
        let timestamp = now.as_secs().to_string();
        let text = |fault: SignatureFault| fault.to_string();
        let around = self.around(head, scheme, timestamp.as_bytes()).map_err(text)?;
        let (before, after) = around.into_iter().next().unwrap_or_default();
        let content = match self.scheme.message.has(&MessagePart::Form) {
            true if is_form(head) => sorted_fields(content),
            true => Vec::new(),
            false => content.to_vec(),
        };
        let mut mac = Hmac::new(hash, secret.or(own).unwrap_or_default());
        [before, content, after].iter().for_each(|part| mac.update(part));
        let item = format!("{}{}", self.scheme.prefix, self.scheme.encoding.encode(&mac.finish()));
        let value = match &self.scheme.timestamp_item {
            Some(prefix) => format!("{prefix}{timestamp}{}{item}", self.scheme.separator.text()),
            None => item,
        };
        let time = self.scheme.timestamp_header.clone().map(|header| (header, timestamp));
        Ok([(self.scheme.header.clone(), value)].into_iter().chain(time).collect())
    }
}
