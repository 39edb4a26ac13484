//! The stage `auth`: proves who sent a request, from its head, before the content is read.
//!
//! [`Guard`] decides for one route. Its [`Authenticator`] checks the credentials, and is shared by all routes
//! that name the same section. Tokens are checked at once, unless new keys have to be fetched
//! ([`remote_keys`]). A password needs tens of milliseconds, so threads of the [`PasswordPool`] check it. The
//! connection waits for both in [`Checking`]. [`Denied`] lists the refusals with their replies.
//!
//! Limits by address run before this stage, so that a refused client costs no password hash. Limits by the
//! name of the caller run after it.

mod authenticator;
mod checking;
mod denied;
mod fetch_keys;
mod guard;
mod password_pool;
mod remote_keys;
mod wait;

pub(crate) use authenticator::Authenticator;
pub(crate) use checking::Checking;
pub(crate) use denied::{Counted, Denied};
pub(crate) use guard::{Access, Guard};
pub(crate) use password_pool::PasswordPool;
pub(crate) use remote_keys::RemoteKeys;
