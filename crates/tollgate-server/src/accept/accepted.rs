//! An accepted connection on its way to a worker, and its start in this worker.

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

/// Place where a connection is polled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The acceptor polls the connection once. If the connection has to wait, a task continues it.
    AtOnce,
    /// A new task serves the connection.
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
    /// Serves the connection. Returns ready if the connection is over, and pending if a task continues it.
    pub(super) fn serve(self, worker: &Rc<Worker>, start: Start) -> Poll<()> {
        let Self { permit, socket, family, acceptance, origin } = self;
        let worker = worker.clone();
        // The future is put on the heap here, because the runtime would otherwise move it when the task
        // begins and ends.
        match family {
            SocketFamily::Tcp if origin.tls => {
                let socket = Socket::<TcpStream>::awaited(socket);
                run(Box::pin(conn::serve_tls(worker, socket, origin, permit)), start)
            }
            SocketFamily::Unix if origin.tls => {
                let socket = Socket::<UnixStream>::awaited(socket);
                run(Box::pin(conn::serve_tls(worker, socket, origin, permit)), start)
            }
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
