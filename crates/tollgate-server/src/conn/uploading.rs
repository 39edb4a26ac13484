//! What is known of a body that comes while its handler runs.

use std::rc::Rc;
use std::time::Instant;

use tollgate_backend::UploadPlace;

use super::body::RequestFraming;
use crate::options::BodyPace;
use crate::upload::Upload;

/// A body that comes while its handler runs.
pub(super) struct Uploading {
    pub(super) framing: RequestFraming,
    pub(super) upload: Rc<Upload>,
    /// How fast it has to come, and since when it does.
    pub(super) pace: BodyPace,
    pub(super) begun: Instant,
    pub(super) bytes_max: u64,
    /// Given back when the body is whole, or nobody waits for it.
    pub(super) _place: UploadPlace,
}

impl Uploading {
    /// Whether more of it is read now.
    pub(super) fn takes_more(&self) -> bool {
        self.upload.has_room()
    }
}
