//! The access log: formats the lines that the workers describe, and writes them.
//!
//! [`format`](mod@format) makes lines, and [`output`] opens and writes the file. [`writer`] is the thread
//! `access`. No worker waits for this thread.

mod format;
mod output;
mod writer;

pub(crate) use writer::{AccessReopener, AccessWriter};

#[cfg(test)]
mod tests;
