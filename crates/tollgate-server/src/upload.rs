//! A body on its way from the connection to the handler that forwards it. The state has the bytes that the
//! handler has not taken, and the end of the body.
//!
//! The connection and the handler belong to one task, but each of them is polled separately. A side that
//! waits stores its waker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tollgate_backend::{BrokenOff, StreamedContent};

use crate::reply::Reply;

/// Number of bytes that may wait for the handler. One read may exceed this number.
const ROOM_BYTES: usize = 64 << 10;

/// A body that arrives while its handler runs.
#[derive(Debug)]
pub(crate) struct Upload {
    /// Length of the body in bytes. `None` if the body is chunked.
    bytes_len: Option<u64>,
    came: RefCell<BytesMut>,
    ending: Cell<Ending>,
    /// The reply to a body that is not valid.
    refusal: RefCell<Option<Box<Reply>>>,
    is_untouched: Cell<bool>,
    /// Waker of the handler that waits for bytes. `giver` is the waker of the connection that waits for
    /// space.
    taker: RefCell<Option<Waker>>,
    giver: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    /// More bytes may arrive.
    Open,
    Whole,
    Broken(BrokenOff),
}

impl Upload {
    /// Creates an upload with the bytes that have arrived.
    pub(crate) fn new(bytes_len: Option<u64>, came: BytesMut) -> Rc<Self> {
        Rc::new(Self {
            bytes_len,
            came: came.into(),
            ending: Ending::Open.into(),
            refusal: RefCell::default(),
            is_untouched: true.into(),
            taker: RefCell::default(),
            giver: RefCell::default(),
        })
    }

    /// Returns the number of bytes that wait to be taken.
    pub(crate) fn bytes(&self) -> usize {
        self.came.borrow().len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.bytes() < ROOM_BYTES
    }

    /// Returns ready when there is space for more bytes.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        *self.giver.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns whether the handler has ended, so that no more bytes are taken.
    pub(crate) fn is_abandoned(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) == 1
    }

    /// Calls `fill`, which appends new bytes, and wakes the handler.
    pub(crate) fn give<T>(&self, fill: impl FnOnce(&mut BytesMut) -> T) -> T {
        let filled = fill(&mut self.came.borrow_mut());
        wake(&self.taker);
        filled
    }

    /// Calls `read` with the bytes that wait to be taken.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(&self.came.borrow())
    }

    /// Drops the bytes that the handler has not taken.
    pub(crate) fn discard(&self) {
        self.came.borrow_mut().clear();
    }

    /// Sets the reply to a body that is not valid. The body then breaks off.
    pub(crate) fn refuse(&self, refusal: Reply) {
        *self.refusal.borrow_mut() = Some(refusal.into());
    }

    /// Takes the reply to a body that is not valid.
    pub(crate) fn take_refusal(&self) -> Option<Reply> {
        self.refusal.borrow_mut().take().map(|refusal| *refusal)
    }

    /// Marks the body as complete.
    pub(crate) fn finish(&self) {
        self.end(Ending::Whole);
    }

    /// Marks the body as broken, because the remaining bytes will never arrive.
    pub(crate) fn break_off(&self, why: BrokenOff) {
        self.end(Ending::Broken(why));
    }

    fn end(&self, ending: Ending) {
        self.ending.set(ending);
        wake(&self.taker);
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.borrow_mut().take() {
        waker.wake();
    }
}

impl StreamedContent for Upload {
    fn bytes_len(&self) -> Option<u64> {
        self.bytes_len
    }

    fn is_untouched(&self) -> bool {
        self.is_untouched.get()
    }

    fn poll_take(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), BrokenOff>> {
        let mut came = self.came.borrow_mut();
        match self.ending.get() {
            // The arrived bytes are useless, because the body will never be complete.
            Ending::Broken(why) => return Poll::Ready(Err(why)),
            Ending::Whole if came.is_empty() => return Poll::Ready(Ok(())),
            Ending::Open if came.is_empty() => {
                *self.taker.borrow_mut() = Some(context.waker().clone());
                return Poll::Pending;
            }
            Ending::Open | Ending::Whole => {}
        }
        let bytes = came.len().min(ROOM_BYTES);
        out.extend_from_slice(&came[..bytes]);
        came.advance(bytes);
        if came.is_empty() {
            *came = BytesMut::new();
        }
        self.is_untouched.set(false);
        wake(&self.giver);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_http::StatusCode;

    use super::*;

    fn take(upload: &Upload) -> Poll<Result<Vec<u8>, BrokenOff>> {
        let mut out = Vec::new();
        let taken = upload.poll_take(&mut Context::from_waker(Waker::noop()), &mut out);
        taken.map_ok(|()| out)
    }

    #[test]
    fn uploaded_bytes_are_taken_in_order_and_room_is_bounded() {
        let upload = Upload::new(None, BytesMut::from("ab"));
        upload.give(|came| came.extend_from_slice(b"c"));
        assert!(upload.is_untouched());
        assert_eq!(take(&upload), Poll::Ready(Ok(b"abc".to_vec())));
        assert!(!upload.is_untouched() && take(&upload).is_pending());
        upload.give(|came| came.resize(ROOM_BYTES, b'x'));
        assert!(!upload.has_room() && upload.poll_room(&mut Context::from_waker(Waker::noop())).is_pending());
        upload.finish();
        assert_eq!(take(&upload), Poll::Ready(Ok(vec![b'x'; ROOM_BYTES])));
        assert_eq!(take(&upload), Poll::Ready(Ok(Vec::new())));
    }

    #[test]
    fn an_upload_that_breaks_off_is_never_whole() {
        let upload = Upload::new(Some(9), BytesMut::from("ab"));
        let why = BrokenOff { status: StatusCode::BAD_REQUEST, text: "incomplete request body" };
        upload.break_off(why);
        assert_eq!(take(&upload), Poll::Ready(Err(why)));
        assert!(upload.is_abandoned() && !{ (upload.clone(), upload.is_abandoned()).1 });
    }
}
