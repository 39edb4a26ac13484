//! How the allocator of the C library gives memory back to the system. Rust, Luau and SQLite use it.
//!
//! glibc keeps free memory behind the first block that is in use, and raises the length from which blocks are
//! mapped by themselves up to 32 MiB. To fix that length would make long replies two and a half times as
//! dear. So free pages are given back now and then. Other C libraries are left as they are.
//! docs/explanation/decisions/allocator.md has the measurements.

/// Gives free pages between blocks that are in use back to the system. Threads that allocate meanwhile may
/// wait for it.
pub(crate) fn trim() {
    // SAFETY: malloc_trim takes the locks of the allocator by itself.
    #[cfg(target_env = "gnu")]
    let _ = unsafe { libc::malloc_trim(0) };
}
