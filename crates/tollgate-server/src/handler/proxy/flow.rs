//! The content of a long reply, from the backend to the client: it is read when the client took what came before.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tollgate_backend::Content;
use tollgate_script::Request;

use super::Proxy;
use crate::handler::Flowed;

/// A content that comes.
pub(crate) struct BackendFlow {
    content: Content,
    /// What came and was not sent.
    came: BytesMut,
    proxy: Rc<Proxy>,
    request: Rc<Request>,
}

impl BackendFlow {
    pub(super) fn new(content: Content, came: BytesMut, proxy: Rc<Proxy>, request: Rc<Request>) -> Self {
        Self { content, came, proxy, request }
    }

    pub(crate) fn take(&mut self) -> Bytes {
        self.came.split().freeze()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.came.len()
    }

    /// Reads what there is.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Flowed> {
        if self.content.is_over() {
            return Poll::Ready(Flowed::Ended);
        }
        if !self.came.is_empty() {
            return Poll::Ready(Flowed::Written);
        }
        match self.content.poll_read(context, &mut self.came) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) if self.content.is_over() => Poll::Ready(Flowed::Ended),
            Poll::Ready(Ok(())) => Poll::Ready(Flowed::Written),
            Poll::Ready(Err(failure)) => {
                self.proxy.tell(&failure, &self.request);
                Poll::Ready(Flowed::Broken)
            }
        }
    }
}
