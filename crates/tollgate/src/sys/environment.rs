//! Removes a variable of the environment.

use std::ffi::OsString;

/// Removes a variable, and returns its value. Only `main` may call this, before it starts a thread.
pub(crate) fn take(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    // SAFETY: the process has one thread, so no other thread reads or changes the environment.
    unsafe { std::env::remove_var(name) };
    Some(value)
}
