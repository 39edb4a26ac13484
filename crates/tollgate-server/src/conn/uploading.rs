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
    /// How fast the body has to arrive, since `begun`.
    pub(super) pace: BodyPace,
    pub(super) begun: Instant,
    pub(super) bytes_max: u64,
    /// Released when the body is complete, or is no longer read.
    pub(super) _place: UploadPlace,
}

impl Uploading {
    /// Returns whether more of the body is read now.
    pub(super) fn takes_more(&self) -> bool {
        self.upload.has_room()
    }
}
