//! Files of a folder over HTTP: finds the file for a path, and applies HTTP to its representations:
//! validators, conditions, ranges, codings, digests.
//!
//! [`Files`] is a served folder in one worker. [`Files::poll_answer`] takes a request whose route is known,
//! and returns a reply as a value. Sockets, routes, scripts and records belong to the caller.
//!
//! A request passes these modules in this order. [`answer`] calls all further modules. [`path_lookup`] finds
//! the file for its path. [`root`] opens that file beneath the folder, if [`folder_bounds`] allows the place
//! of the folder. [`resource`] makes the representations of the file. [`cache`] keeps the representations for
//! the next request, within the limit of [`descriptor_cache`]. [`compressed`] compresses representations, and
//! [`digests`] computes their digests. [`selected`] chooses the part of the representation that the request
//! gets. The caller sends larger content as a [`FileSlice`] of the open file.
//!
//! Invariants:
//! - The kernel opens each file beneath the root (openat2). Comparing paths never replaces this check. Only
//!   regular files are served.
//! - The folder bounds apply to the folder that is at the path now, not only to the folder at the time of the
//!   configuration.
//! - A reply has the bytes of one file. If another file replaces this file, the reply continues with the old
//!   file. If the file becomes shorter, the caller ends the connection. A file that another program writes in
//!   place may be read half-written, and the system does not always report that.
//! - A worker reads only data that is in memory. Threads wait for the disk. A request waits for a thread as a
//!   [`PendingRead`], or gets a reply without the result of the thread.
//!
//! Absent here: sockets, the `Host`, records.

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
