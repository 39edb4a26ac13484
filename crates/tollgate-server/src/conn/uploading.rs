//! The state of a body that arrives while its handler runs.

use std::rc::Rc;
use std::time::Instant;

use tollgate_backend::UploadPlace;

use super::body::RequestFraming;
use crate::options::BodyPace;
use crate::upload::Upload;

/// A body that arrives while its handler runs.
pub(super) struct Uploading {
    pub(super) framing: RequestFraming,
    pub(super) upload: Rc<Upload>,
    /// Pace at which the body has to arrive, counted from `begun`.
    pub(super) pace: BodyPace,
    pub(super) begun: Instant,
    pub(super) bytes_max: u64,
    /// Permit that is released when the body is complete, or is no longer read.
    pub(super) _place: UploadPlace,
}

impl Uploading {
    /// Returns whether the connection reads more of the body now.
    pub(super) fn takes_more(&self) -> bool {
        self.upload.has_room()
    }
}
