//! Proves who sent a request, from the field `Authorization` of its head.
//!
//! - [`credentials()`] reads the field (RFC 9110 section 11.6.2).
//! - [`Passwords`] checks a name and a password against an htpasswd file (RFC 7617).
//! - [`Tokens`] finds the name of a token by its digest (RFC 6750).
//! - [`verify_jwt`] verifies a JSON Web Token by a [`KeySet`] (RFC 7519, RFC 8725).
//! - [`Requirement`] decides whether a known caller may use a route.
//!
//! This crate has no sockets, no threads and no clocks: callers pass times in. No error text and no `Debug`
//! output contains a password or a token.

mod challenge;
mod credentials;
mod identity;
mod jwt;
mod lines;
mod passwords;
mod remembered;
mod requirement;
mod stored_hash;
mod tokens;

pub use challenge::{basic_challenge, bearer_challenge, is_realm};
pub use credentials::{Credentials, CredentialsFault, credentials};
pub use identity::{Identity, Scheme};
pub use jwt::{JwtFault, JwtRules, KeySet, KeySetFault, verify_jwt};
pub use lines::LineFault;
pub use passwords::{Passwords, password_line};
pub use remembered::Remembered;
pub use requirement::{ClaimRule, Requirement};
pub use tokens::{Token, Tokens, token_line};
