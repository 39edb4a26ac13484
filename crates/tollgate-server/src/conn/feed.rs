//! Passes a body to its handler while it arrives.
//!
//! Content that does not fit in memory goes to the handler instead of the spool. The handler sets
//! the pace. The bytes after it are not read as a request before the body is complete. If the handler answers
//! before the body is complete, the connection ends after that reply. The remaining bytes are not read (RFC
//! 9112 section 9.6).

use std::future::poll_fn;

use tollgate_backend::{BrokenOff, UploadPlace};
use tollgate_http::{RequestError, StatusCode};
use tollgate_script::Body;

use super::body::BodyReader;
use super::connection::{Connection, Reading, Reuse};
use super::transport::Transport;
use super::uploading::{UploadStep, Uploading};
use crate::upload::Upload;

impl<S: Transport> Connection<S> {
    /// Starts the handler with the part of the body that has arrived.
    pub(super) fn begin_upload(&mut self, place: UploadPlace) {
        let Reading::Body(body) = std::mem::replace(&mut self.reading, Reading::Head) else { return };
        let BodyReader { mut arrived, framing, content, .. } = *body;
        let validation = arrived.validation.take();
        let upload = Upload::new(arrived.head.framing().length(), content);
        arrived.upload = Some(upload.clone());
        self.reading = Reading::Upload(Box::new(Uploading {
            framing,
            upload,
            pace: arrived.body_pace(self.limits()),
            begun: arrived.begun,
            bytes_max: arrived.body_bytes_max(),
            validation,
            has_left: false,
            _place: place,
        }));
        self.feed_upload();
        self.answer(arrived, Body::default());
    }

    /// Gives the handler the bytes of the body that have arrived.
    pub(super) fn feed_upload(&mut self) {
        let Reading::Upload(uploading) = &mut self.reading else { return };
        if !uploading.upload.has_room() && !uploading.upload.is_abandoned() {
            return;
        }
        match uploading.give(&mut self.input) {
            Ok(UploadStep::Whole) => {
                uploading.upload.finish();
                self.reading = Reading::Head;
            }
            Ok(UploadStep::Part) if uploading.upload.is_abandoned() => uploading.upload.discard(),
            Ok(UploadStep::Part) => {}
            Ok(UploadStep::Refused) => self.refuse_upload(),
            Err(error) => self.break_upload_off(&error),
        }
    }

    /// Breaks off the request to the backend, because the body is not valid. The handler gets the refusal.
    #[cold]
    fn refuse_upload(&mut self) {
        if let Reading::Upload(uploading) = &self.reading
            && let Some(refusal) = uploading.validation.as_ref().and_then(|validation| validation.refusal())
        {
            uploading.upload.refuse(refusal);
            self.end_upload(BrokenOff {
                status: StatusCode::UNPROCESSABLE_CONTENT,
                text: "invalid document",
            });
        }
    }

    /// Waits until the handler has taken enough bytes, so that the connection can read more.
    pub(super) async fn upload_room(upload: &Upload) {
        poll_fn(|context| upload.poll_room(context)).await;
    }

    /// Ends a body that will never be complete. The handler gets the error and answers.
    pub(super) fn break_upload_off(&mut self, error: &RequestError) {
        tracing::debug!(peer = self.client.peer.map(tracing::field::display), "request refused: {error}");
        self.worker.cells.count_malformed(error.status());
        self.end_upload(BrokenOff { status: error.status(), text: error.client_text() });
    }

    /// Ends a body that did not arrive in time.
    pub(super) fn upload_too_late(&mut self) {
        self.worker.cells.count_malformed(StatusCode::REQUEST_TIMEOUT);
        self.end_upload(BrokenOff::TOO_LATE);
    }

    fn end_upload(&mut self, why: BrokenOff) {
        if let Reading::Upload(uploading) = std::mem::replace(&mut self.reading, Reading::Head) {
            uploading.upload.break_off(why);
        }
        self.reuse = self.reuse.ending(Reuse::Linger);
    }

    /// Stops reading the body, because the handler answered before it was complete.
    pub(super) fn leave_upload(&mut self) {
        if matches!(self.reading, Reading::Upload(_)) {
            self.reading = Reading::Head;
            self.reuse = self.reuse.ending(Reuse::Linger);
        }
    }
}
