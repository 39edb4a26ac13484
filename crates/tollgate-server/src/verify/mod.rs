//! Verifies that a partner sent a request: the signature of a webhook, on the bytes as sent.
//!
//! `VerifySpec::begin` reads the signature and the timestamp from the head. [`Verification`] then gets the
//! content while it arrives, before its content coding is removed. An HMAC runs along with the content. A
//! public key and the fields of a form need the whole content, so it is kept up to a bound.

mod claim;
mod fault;
mod form;
mod public_url;
mod sign;
mod verification;

pub(crate) use fault::SignatureFault;
pub(crate) use verification::Verification;
