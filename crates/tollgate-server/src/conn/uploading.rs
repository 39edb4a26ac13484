//! The state of a body that arrives while its handler runs.

use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use tollgate_backend::UploadPlace;
use tollgate_http::RequestError;

use super::body::RequestFraming;
use crate::options::BodyPace;
use crate::upload::Upload;
use crate::validation::{RequestValidation, SLICE};

/// A body that arrives while its handler runs.
pub(super) struct Uploading {
    pub(super) framing: RequestFraming,
    pub(super) upload: Rc<Upload>,
    /// Pace at which the body has to arrive, counted from `begun`.
    pub(super) pace: BodyPace,
    pub(super) begun: Instant,
    pub(super) bytes_max: u64,
    /// The validation of the body, if the route validates requests.
    pub(super) validation: Option<Box<RequestValidation>>,
    /// Whether a slice ended before all bytes were validated.
    pub(super) is_sliced: bool,
    /// Permit that is released when the body is complete, or is no longer read.
    pub(super) _place: UploadPlace,
}

impl Uploading {
    /// Returns whether the connection reads more of the body now.
    pub(super) fn takes_more(&self) -> bool {
        self.upload.has_room()
    }

    /// Returns whether a slice ended before all bytes that have arrived were validated.
    pub(super) fn is_judging(&self) -> bool {
        self.is_sliced && self.takes_more() && !self.upload.is_abandoned()
    }

    /// Gives the handler the bytes of the body in `input`. A body that has to be valid is given while it is
    /// valid, for a slice.
    ///
    /// # Errors
    /// The framing is invalid, or the body exceeds a limit.
    pub(super) fn give(&mut self, input: &mut BytesMut) -> Result<UploadStep, RequestError> {
        self.is_sliced = false;
        let is_abandoned = self.upload.is_abandoned();
        let Self { framing, upload, bytes_max, validation, .. } = self;
        let Some(validation) = validation.as_mut().filter(|_| !is_abandoned) else {
            let is_whole = upload.give(|came| framing.take(input, came, *bytes_max))?;
            return Ok(if is_whole { UploadStep::Whole } else { UploadStep::Part });
        };
        let begun = Instant::now();
        loop {
            let before = input.len();
            let rest = input.split_off(before.min(PIECE_BYTES));
            let piece_bytes = input.len();
            let given = upload.give(|came| {
                let start = came.len();
                let is_whole = framing.take(input, came, *bytes_max)?;
                let mut judged = start;
                while judged < came.len() {
                    judged += validation.feed(&came[judged..]);
                }
                if is_whole {
                    validation.finish();
                }
                if validation.refusal().is_some() {
                    came.truncate(start);
                    return Ok(UploadStep::Refused);
                }
                Ok(if is_whole { UploadStep::Whole } else { UploadStep::Part })
            });
            let is_stuck = input.len() == piece_bytes;
            input.unsplit(rest);
            let given = given?;
            if given != UploadStep::Part || input.is_empty() || is_stuck || !upload.has_room() {
                return Ok(given);
            }
            if begun.elapsed() >= SLICE {
                self.is_sliced = true;
                return Ok(UploadStep::Part);
            }
        }
    }
}

/// Bytes of a body between two readings of the clock. A line of the chunked framing is shorter.
const PIECE_BYTES: usize = 16 << 10;

/// Result of giving bytes to the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UploadStep {
    Part,
    Whole,
    /// The body is not valid, and the handler does not get the piece with the fault.
    Refused,
}
