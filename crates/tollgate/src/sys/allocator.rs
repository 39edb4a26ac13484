//! Returns free memory of the C library's allocator to the system. Rust, Luau and SQLite use this allocator.
//!
//! glibc keeps free memory after the first block that is in use. It also raises the size from which it maps
//! blocks separately, up to 32 MiB. A fixed size would make long replies two and a half times as expensive.
//! Free pages are therefore returned now and then. Other C libraries are not changed.
//! docs/explanation/decisions/allocator.md has the measurements.

/// Returns free pages between used blocks to the system. Threads that allocate meanwhile may wait for it.
pub(crate) fn trim() {
    // SAFETY: malloc_trim takes the locks of the allocator itself.
    #[cfg(target_env = "gnu")]
    let _ = unsafe { libc::malloc_trim(0) };
}
