//! Reads the source of the workspace, and checks rules that the compiler does not check.
//!
//! - [`target`] reads the files of a crate as the compiler does: from its root file, along each `mod x;`.
//! - [`imports`] finds which file uses names that another file defines.
//! - [`graph`] finds the cycles among these imports, and proposes imports to remove.
//! - [`workspace`] names the crates, their roots and their dependencies on each other.
//! - [`wrap`] wraps comments that are too wide.
//! - [`markdown`] finds the links and the headings of a page.
//! - [`rules`] checks lines and items of single files.
//!
//! `tests/tidy` holds the rules and their exceptions. `make cycles` prints the cycles.

pub mod graph;
pub mod imports;
pub mod markdown;
mod names;
pub mod rules;
pub mod target;
pub mod workspace;
pub mod wrap;
