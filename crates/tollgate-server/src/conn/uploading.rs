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
    /// Whether bytes that have arrived were not given, because a slice ended or there was no space.
    pub(super) has_left: bool,
    /// Permit that is released when the body is complete, or is no longer read.
    pub(super) _place: UploadPlace,
}

impl Uploading {
    /// Returns whether the connection reads more of the body now. Bytes that have arrived come first.
    pub(super) fn takes_more(&self) -> bool {
        self.upload.has_room() && !self.has_left
    }

    /// Returns whether bytes that have arrived are validated now.
    pub(super) fn is_judging(&self) -> bool {
        self.has_left && self.upload.has_room() && !self.upload.is_abandoned()
    }

    /// Gives the handler the bytes of the body in `input`. A body that has to be valid is given while it is
    /// valid, for a slice.
    ///
    /// # Errors
    /// The framing is invalid, or the body exceeds a limit.
    pub(super) fn give(&mut self, input: &mut BytesMut) -> Result<UploadStep, RequestError> {
        self.has_left = false;
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
            if given != UploadStep::Part || input.is_empty() || is_stuck {
                return Ok(given);
            }
            if !upload.has_room() || begun.elapsed() >= SLICE {
                self.has_left = true;
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use tollgate_backend::{Backend, BackendOptions, Client, StreamedContent};
    use tollgate_http::{HeadReader, Limits};
    use tollgate_validate::Folder;

    use super::*;
    use crate::observe::{OwnCells, RouteName, WorkerCells};
    use crate::options::{SchemaSpec, ValidateMode, ValidateSpec};
    use crate::validation::Validation;

    const BODY_BYTES: usize = 200 << 10;

    /// Creates the upload of a document of `BODY_BYTES` to which the schema `a.rnc` applies.
    fn uploading() -> Uploading {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.rnc"), "element a { text }").unwrap();
        let schema = SchemaSpec::read("a.rnc", &Folder::new(folder.path())).unwrap();
        let spec = ValidateSpec { request: Some(schema), reply: None, mode: ValidateMode::Stream };
        let text = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
        );
        let head = HeadReader::default().read(&mut BytesMut::from(&*text), &Limits::default()).unwrap();
        let route = RouteName { path: "/".to_owned(), host: None, methods: None };
        let cells = OwnCells::new(WorkerCells::new().route(route), None);
        let validation = Rc::new(Validation::new(&spec)).begin_request(&head.unwrap(), &cells);
        let backend = Backend::new(BackendOptions::new("app", Vec::new()));
        let client = Client::new(&[backend], &Client::default());
        Uploading {
            framing: RequestFraming::Length(BODY_BYTES as u64),
            upload: Upload::new(Some(BODY_BYTES as u64), BytesMut::new()),
            pace: BodyPace::default(),
            begun: Instant::now(),
            bytes_max: u64::MAX,
            validation: Some(validation.unwrap().into()),
            has_left: false,
            _place: client.at(0).unwrap().try_upload().unwrap(),
        }
    }

    #[test]
    fn bytes_that_found_no_space_are_given_before_more_is_read() {
        let mut uploading = uploading();
        let handler = uploading.upload.clone();
        let document = format!("<a>{}</a>", "x".repeat(BODY_BYTES - 7));
        let mut input = BytesMut::from(&*document);
        let mut taken = Vec::new();
        loop {
            let step = uploading.give(&mut input).unwrap();
            assert_eq!(uploading.has_left, !input.is_empty());
            assert!(!uploading.takes_more() || input.is_empty(), "{} bytes are left", input.len());
            let has_taken = handler.poll_take(&mut Context::from_waker(Waker::noop()), &mut taken);
            assert_eq!(has_taken, Poll::Ready(Ok(())));
            if step == UploadStep::Whole {
                break;
            }
            assert!(uploading.is_judging() && !uploading.takes_more(), "no byte will come");
        }
        assert!(taken == document.as_bytes());
    }
}
