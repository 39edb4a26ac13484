//! Settings of a route for its scripts: their role, and their access outside the VM.

use std::sync::Arc;

use crate::database::Database;
use crate::uploads::Uploads;

/// Role of a script in its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// The script replies.
    #[default]
    Handler,
    /// The script runs before the handler, and may reply itself.
    Before,
    /// The script gets the reply, and may change its header fields.
    After,
}

/// Access of the calls of a script outside the VM.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Folder for saved files.
    pub uploads: Option<Uploads>,
    /// Index of the database that replies wait for, regardless of emitted records. `None` if they wait for
    /// none.
    pub awaits: Option<usize>,
    /// Databases that the calls may read.
    pub databases: Vec<Arc<dyn Database>>,
}
