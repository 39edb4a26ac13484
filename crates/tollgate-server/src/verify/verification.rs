//! The verification of one request, from its head to the end of its content.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate_http::{RequestError, RequestHead, UriScheme};
use tollgate_signature::{Algorithm, Hash, Hmac, PublicKey};

use super::claim::{Claim, field};
use super::fault::SignatureFault;
use super::form::{body_digest, is_form, sorted_fields};
use crate::options::{MessagePart, SignatureKind, VerifyKeys, VerifySpec};

/// Maximum bytes of a content that is kept in memory until its signature is verified.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The verification of one request whose content arrives.
pub(crate) struct Verification {
    signatures: Vec<Vec<u8>>,
    state: State,
}

enum State {
    /// The HMACs of all content so far, and the ends of their messages.
    Running(Vec<(Hmac, Vec<u8>)>),
    /// The content has to be complete first.
    Keeping(Keeping),
}

struct Keeping {
    spec: Arc<VerifySpec>,
    content: Vec<u8>,
    form: ContentForm,
    /// The parts of each possible message before and after the content.
    around: Vec<Around>,
}

/// The parts of a message before and after the content.
pub(super) type Around = (Vec<u8>, Vec<u8>);

/// How the content is a part of the message.
enum ContentForm {
    AsSent,
    SortedFields,
    /// The digest that the signed URL has.
    Digest(Option<Vec<u8>>),
}

impl VerifySpec {
    /// Begins the verification of a request. `now_s` is the time in seconds since 1970.
    ///
    /// # Errors
    /// The head has no usable signature, or its timestamp differs too much from the clock.
    pub(crate) fn begin(
        self: &Arc<Self>,
        head: &RequestHead,
        scheme: UriScheme,
        now_s: i64,
    ) -> Result<Verification, SignatureFault> {
        let Claim { signatures, timestamp } = self.scheme.claim(head, now_s)?;
        let around = self.around(head, scheme, &timestamp)?;
        let state = match (self.scheme.algorithm.kind(), &self.keys) {
            (SignatureKind::Hmac(hash), VerifyKeys::Secrets(secrets)) if !self.needs_whole() => {
                let running = secrets.iter().flat_map(|secret| {
                    around.iter().map(move |(before, after)| (hmac(hash, &secret.0, before), after.clone()))
                });
                State::Running(running.collect())
            }
            _ => State::Keeping(Keeping {
                spec: Arc::clone(self),
                content: Vec::new(),
                form: self.content_form(head),
                around,
            }),
        };
        Ok(Verification { signatures, state })
    }

    /// Returns whether the message cannot be made while the content arrives.
    fn needs_whole(&self) -> bool {
        self.scheme.message.has(&MessagePart::Form)
    }

    fn content_form(&self, head: &RequestHead) -> ContentForm {
        match self.needs_whole() {
            false => ContentForm::AsSent,
            true if is_form(head) => ContentForm::SortedFields,
            true => ContentForm::Digest(body_digest(head)),
        }
    }

    /// Returns the parts of the message before and after the content. There is one pair, or one for each
    /// spelling of the URL.
    pub(super) fn around(
        &self,
        head: &RequestHead,
        scheme: UriScheme,
        timestamp: &[u8],
    ) -> Result<Vec<Around>, SignatureFault> {
        let urls = match self.scheme.message.has(&MessagePart::Url) {
            true => self.urls(head, scheme)?.to_vec(),
            false => vec![Vec::new()],
        };
        let (before, _, after) = self.scheme.message.around_content();
        let join = |parts: &[MessagePart], url: &[u8]| {
            let part = |part| Ok(value(part, head, timestamp, url)?.to_vec());
            parts.iter().map(part).collect::<Result<Vec<_>, _>>().map(|parts| parts.concat())
        };
        urls.iter().map(|url| Ok((join(before, url)?, join(after, url)?))).collect()
    }
}

/// Returns the value of a part of the message outside of the content.
fn value<'v>(
    part: &'v MessagePart,
    head: &'v RequestHead,
    timestamp: &'v [u8],
    url: &'v [u8],
) -> Result<&'v [u8], SignatureFault> {
    Ok(match part {
        MessagePart::Text(text) => text.as_bytes(),
        MessagePart::Timestamp => timestamp,
        MessagePart::Method => head.method_name().as_bytes(),
        MessagePart::Url => url,
        MessagePart::Header(name) => field(head, name)?,
        MessagePart::Body | MessagePart::Form => &[],
    })
}

impl Verification {
    /// Adds bytes of the content as sent, without the framing.
    ///
    /// # Errors
    /// The content has to be kept until it is complete, and exceeds the limit.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        match &mut self.state {
            State::Running(running) => running.iter_mut().for_each(|(mac, _)| mac.update(bytes)),
            State::Keeping(Keeping { content, .. }) => {
                let total = content.len() + bytes.len();
                if total > KEPT_BYTES_MAX {
                    let (bytes, limit) = (total as u64, KEPT_BYTES_MAX as u64);
                    return Err(RequestError::BodyTooLarge { bytes, limit });
                }
                content.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Returns the memory that the verification holds, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Running(_) => 0,
            State::Keeping(keeping) => keeping.content.capacity(),
        }
    }

    /// Verifies the signature of the complete content.
    ///
    /// # Errors
    /// No key makes one of the signatures.
    pub(crate) fn finish(self) -> Result<(), SignatureFault> {
        let Self { signatures, state } = self;
        let holds = match state {
            State::Running(running) => running.into_iter().any(|(mut mac, after)| {
                mac.update(&after);
                signatures.iter().any(|signature| mac.clone().matches(signature))
            }),
            State::Keeping(keeping) => keeping.holds(&signatures)?,
        };
        if holds { Ok(()) } else { Err(SignatureFault::Mismatch) }
    }
}

impl Keeping {
    fn holds(&self, signatures: &[Vec<u8>]) -> Result<bool, SignatureFault> {
        let content = self.form.message_of(&self.content)?;
        let mut messages = self
            .around
            .iter()
            .map(|(before, after)| [before.as_slice(), content.as_slice(), after.as_slice()].concat());
        Ok(match (&self.spec.keys, self.spec.scheme.algorithm.kind()) {
            (VerifyKeys::Secrets(secrets), SignatureKind::Hmac(hash)) => messages.any(|message| {
                let mut codes = secrets.iter().map(|secret| hmac(hash, &secret.0, &message));
                codes.any(|code| signatures.iter().any(|signature| code.clone().matches(signature)))
            }),
            (VerifyKeys::Public(keys), SignatureKind::Public(algorithm)) => {
                messages.any(|message| is_signed(keys, algorithm, &message, signatures))
            }
            // The configuration gives each algorithm its kind of key.
            _ => false,
        })
    }
}

impl ContentForm {
    /// Returns the content as a part of the message.
    fn message_of(&self, content: &[u8]) -> Result<Vec<u8>, SignatureFault> {
        match self {
            Self::AsSent => Ok(content.to_vec()),
            Self::SortedFields => Ok(sorted_fields(content)),
            Self::Digest(None) if content.is_empty() => Ok(Vec::new()),
            // The digest is a part of the signed URL, so the signature covers the content.
            Self::Digest(Some(digest)) if Sha256::digest(content).as_slice() == digest => Ok(Vec::new()),
            Self::Digest(_) => Err(SignatureFault::Uncovered),
        }
    }
}

fn hmac(hash: Hash, secret: &[u8], message: &[u8]) -> Hmac {
    let mut mac = Hmac::new(hash, secret);
    mac.update(message);
    mac
}

fn is_signed(keys: &[PublicKey], algorithm: Algorithm, message: &[u8], signatures: &[Vec<u8>]) -> bool {
    keys.iter()
        .any(|key| signatures.iter().any(|signature| key.verify(algorithm, message, signature).is_ok()))
}

#[cfg(test)]
mod tests;
