//! A connection on its way to a worker, and how it is served there.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;

use crate::conn::{self, Origin, Socket};
use crate::crowd::Seat;
use crate::listen::{Acceptance, Family};
use crate::worker::Worker;

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) seat: Seat,
    pub(super) socket: OwnedFd,
    pub(super) family: Family,
    pub(super) acceptance: Acceptance,
    pub(super) origin: Origin,
}

impl Accepted {
    /// Has a task serve it.
    pub(super) fn open(self, worker: &Rc<Worker>) {
        let Self { seat, socket, family, acceptance, origin } = self;
        let worker = worker.clone();
        // On the heap already: the runtime moves a task about as it begins and ends it.
        drop(match (family, acceptance) {
            (Family::Tcp, Acceptance::WithBytes) => {
                let socket = Socket::<TcpStream>::with_bytes(socket);
                spawn_local(Box::pin(conn::serve(worker, socket, origin, seat)))
            }
            (Family::Tcp, Acceptance::Empty) => {
                let socket = Socket::<TcpStream>::awaited(socket);
                spawn_local(Box::pin(conn::serve(worker, socket, origin, seat)))
            }
            (Family::Unix, _) => {
                let socket = Socket::<UnixStream>::awaited(socket);
                spawn_local(Box::pin(conn::serve(worker, socket, origin, seat)))
            }
        });
    }
}
