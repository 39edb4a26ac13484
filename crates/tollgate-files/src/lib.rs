//! Files of a folder over HTTP: which file a path means, and what HTTP says about its representations:
//! validators, conditions, ranges, codings, digests.
//!
//! [`Files`] is a folder that is served, in one worker. [`Files::poll_answer`] takes a request whose route is
//! known, and gives a reply as a value. Sockets, routes, scripts and records belong to the caller.
//!
//! A request passes these modules in this order. [`answer`] leads it through the others. [`path_lookup`]
//! finds the file that its path means. [`root`] opens that file beneath the folder, if [`folder_bounds`] let
//! the folder lie there. [`resource`] makes the representations of the file. [`cache`] keeps them for the
//! next request, within the bounds of [`descriptor_cache`]. [`compressed`] compresses them, [`digests`]
//! digests them. [`selected`] chooses the part of the representation that the request gets. Content that is
//! not small leaves as a [`FileSlice`] of the open file, which the caller sends.
//!
//! Invariants:
//! - The kernel opens each file beneath the root (openat2). Paths are never compared in its place. Only
//!   regular files are served.
//! - The folder bounds hold for the folder that is at the path now, not only for the one that was there when
//!   the configuration was read.
//! - A reply has the bytes of one file. If another file takes its place, the reply goes on with the old one.
//!   If the file becomes shorter, the caller ends the connection. A file that is written in place may be read
//!   halfway, and the system does not always tell.
//! - A worker reads only what is in memory. Threads wait for the disk. A request waits for them as a
//!   [`PendingRead`], or gets a reply without the result.
//!
//! Absent here: sockets, the script host, records.

mod answer;
mod cache;
mod compress;
mod compressed;
mod descriptor_cache;
mod digest;
mod digests;
mod disk_jobs;
mod file_slice;
mod files;
mod folder_bounds;
mod listing;
mod lookup_context;
mod media;
mod named;
mod opened;
mod options;
mod path_lookup;
mod pending_read;
mod reply;
mod representation;
mod request;
mod resource;
mod root;
mod selected;
mod source;
mod stamp;
mod tally;
mod two_generation_cache;

pub use descriptor_cache::DescriptorCache;
pub use file_slice::{FileSlice, Passage, SentFile};
pub use files::{Files, SharedFiles};
pub use folder_bounds::{FolderBounds, OwnFile};
pub use named::{NamedFile, NamedFileError};
pub use options::{Etag, FilesSpec, Symlinks, TryPath};
pub use pending_read::PendingRead;
pub use reply::{FilePart, FileReply};
pub use request::FileRequest;
