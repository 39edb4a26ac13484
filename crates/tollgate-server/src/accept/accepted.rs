//! An accepted connection on its way to a worker, and its start there.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;

use crate::conn::{self, Origin, Socket};
use crate::listen::{Acceptance, SocketFamily};
use crate::overload::ConnectionPermit;
use crate::worker::Worker;

/// Where a connection is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// In the acceptor, which polls it once. If the connection has to wait, a task continues it.
    AtOnce,
    /// In a task of its own.
    InTask,
}

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) permit: ConnectionPermit,
    pub(super) socket: OwnedFd,
    pub(super) family: SocketFamily,
    pub(super) acceptance: Acceptance,
    pub(super) origin: Origin,
}

impl Accepted {
    /// Serves the connection. Returns ready if it is over, and pending if a task continues it.
    pub(super) fn serve(self, worker: &Rc<Worker>, start: Start) -> Poll<()> {
        let Self { permit, socket, family, acceptance, origin } = self;
        let worker = worker.clone();
        // The future is already on the heap, because the runtime moves a task when it begins and ends.
        match family {
            SocketFamily::Tcp => {
                let socket = match acceptance {
                    Acceptance::WithBytes => Socket::<TcpStream>::with_bytes(socket),
                    Acceptance::Empty => Socket::awaited(socket),
                };
                run(Box::pin(conn::serve(worker, socket, origin, permit)), start)
            }
            SocketFamily::Unix => {
                let socket = Socket::<UnixStream>::awaited(socket);
                run(Box::pin(conn::serve(worker, socket, origin, permit)), start)
            }
        }
    }
}

fn run(mut serving: Pin<Box<impl Future<Output = ()> + 'static>>, start: Start) -> Poll<()> {
    // A waker that does nothing suffices, because a new task polls the future again.
    let mut unwoken = Context::from_waker(Waker::noop());
    if start == Start::AtOnce && serving.as_mut().poll(&mut unwoken).is_ready() {
        return Poll::Ready(());
    }
    drop(spawn_local(serving));
    Poll::Pending
}
