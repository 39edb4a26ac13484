//! The writing half of a socket, as rustls expects it: a call that would wait fails with `WouldBlock`.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// A socket during one poll. If the socket takes no bytes, the task of the context is woken later.
pub(super) struct Wire<'a, 'b, S> {
    pub(super) socket: &'a mut S,
    pub(super) context: &'a mut Context<'b>,
}

impl<S: AsyncWrite + Unpin> Write for Wire<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        at_once(Pin::new(&mut *self.socket).poll_write(self.context, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        at_once(Pin::new(&mut *self.socket).poll_write_vectored(self.context, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn at_once(written: Poll<io::Result<usize>>) -> io::Result<usize> {
    match written {
        Poll::Ready(written) => written,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
