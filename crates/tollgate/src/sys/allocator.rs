//! Returns free memory of the C library's allocator to the system. Rust, Luau and SQLite use this allocator.
//!
//! glibc keeps free memory that lies between blocks in use. glibc also raises the size from which blocks are
//! mapped separately, up to 32 MiB. Blocks below this size stay in the heap. A fixed size would make long
//! replies two and a half times as expensive. Tollgate therefore returns free pages from time to time. A
//! static program has mimalloc, which returns memory by itself. docs/explanation/decisions/allocator.md has
//! the measurements.

/// Returns free pages between used blocks to the system. Threads that allocate at the same time may wait for
/// this call.
pub(crate) fn trim() {
    // SAFETY: malloc_trim takes the locks of the allocator itself.
    #[cfg(target_env = "gnu")]
    let _ = unsafe { libc::malloc_trim(0) };
}

/// The allocator of a static program.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
