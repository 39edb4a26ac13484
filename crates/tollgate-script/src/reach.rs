//! What a route gives its scripts: their role, and what their calls may reach outside of the VM.

use std::sync::Arc;

use crate::database::Database;
use crate::uploads::Uploads;

/// What a script is to its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// It replies.
    #[default]
    Handler,
    /// It runs before what replies, and may reply itself.
    Before,
    /// It is told the reply, and may change header fields of it.
    After,
}

/// What the calls of a script may reach outside of the VM.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Where they save files.
    pub uploads: Option<Uploads>,
    /// The database that replies wait for whatever they emit, by its place, if they do.
    pub awaits: Option<usize>,
    /// The databases that they may read.
    pub databases: Vec<Arc<dyn Database>>,
}
