//! Certificates from an ACME server (RFC 8555), and certificates of a development authority.
//!
//! The thread `acme` orders a certificate for each name, answers the challenges of the server, and renews
//! each certificate in time. All state is in one folder, which several machines may share. A start never
//! waits for the ACME server: until a certificate is there, a self-signed one serves.
//!
//! Invariants:
//! - A private key is on disk before the server sees a request that depends on it. So a kill loses no key.
//! - An account key is registered again after a kill. The server then returns the same account (RFC 8555
//!   section 7.3.1), so no second account exists.
//! - Only the machine that has the lock of the folder sends orders.
//! - A failed order of one name never delays the orders of other names beyond the time of its own order.
//!
//! The caller has the sockets and the hook for a DNS provider. It serves `challenges/` of the folder at
//! `/.well-known/acme-challenge/`.
//!
//! [`Poster`] is the same HTTP client for other parts of the server, which post content.

mod account;
mod authority;
mod challenges;
mod dns;
mod error;
mod exchange;
mod facts;
mod folder;
mod http;
mod jws;
mod options;
mod order;
mod poster;
mod record;
mod register;
mod report;
mod request;
mod schedule;
mod selfmade;
mod thread;
mod worker;

pub use authority::{LocalAuthority, LocalCertificate};
pub use dns::{DnsHook, OpenDns, RecordChange};
pub use error::AcmeError;
pub use exchange::RetryAfter;
pub use folder::StateFolder;
pub use options::{AcmeOptions, ChallengeKind, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING};
pub use poster::{PostAnswer, Poster};
pub use report::{AcmeStatus, AcmeWatch, CertificateReport, CertificateState, reports};
pub use request::request_orders;
pub use thread::{Acme, Prepared};
