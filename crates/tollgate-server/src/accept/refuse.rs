//! Connections that are not served, and are told so.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;
use tollgate_http::StatusCode;

use crate::conn::{self, Replies, Socket};
use crate::listen::SocketFamily;
use crate::observe::{Refusal, RouteTally};
use crate::overload::refusal_text;
use crate::reply::{Reply, Writing};
use crate::worker::Worker;

/// Connections that are told so in their own time, by worker; more are told at once, and closed before they
/// ask.
const REFUSALS_AT_ONCE_MAX: usize = 64;
/// What is read at once of the requests of one that is turned away, and how often.
const TURNED_AWAY_BYTES: usize = 16 << 10;
const TURNED_AWAY_READS_MAX: usize = 16;

/// Tells a connection that there are too many, in its own time if not too many are being told so.
pub(super) fn refuse(worker: &Rc<Worker>, socket: OwnedFd, family: SocketFamily) {
    worker.cells.count_refusal(Refusal::Connections);
    let text = refusal_text::CONNECTIONS;
    if worker.refusals.get() >= REFUSALS_AT_ONCE_MAX {
        return send_refusal(worker, &socket, text, false);
    }
    let worker = worker.clone();
    drop(match family {
        SocketFamily::Tcp => spawn_local(conn::refuse(worker, Socket::<TcpStream>::awaited(socket), text)),
        SocketFamily::Unix => spawn_local(conn::refuse(worker, Socket::<UnixStream>::awaited(socket), text)),
    });
}

/// Tells a connection that it would wait too long. What it asked is in the socket already, and is read first:
/// bytes that nobody read would take the reply with them (RFC 9112 section 9.6). Given back is one that has
/// not asked yet, and so waits for nothing.
pub(super) fn turn_away(worker: &Worker, socket: OwnedFd) -> Option<OwnedFd> {
    let mut asked = [0; TURNED_AWAY_BYTES];
    match recv(&socket, &mut asked, RecvFlags::DONTWAIT) {
        Ok((_, bytes)) => {
            worker.cells.count_refusal(Refusal::Behind);
            worker.admission.note_turned_away();
            let is_head = asked[..bytes].starts_with(b"HEAD ");
            if bytes == TURNED_AWAY_BYTES {
                pass_over(&socket, &mut asked);
            }
            send_refusal(worker, &socket, refusal_text::BEHIND, is_head);
            None
        }
        Err(Errno::AGAIN) => Some(socket),
        // It is gone.
        Err(_) => None,
    }
}

/// Reads what else came.
fn pass_over(socket: &OwnedFd, buffer: &mut [u8]) {
    for _ in 0..TURNED_AWAY_READS_MAX {
        match recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((_, bytes)) if bytes == buffer.len() => {}
            _ => return,
        }
    }
}

fn send_refusal(worker: &Worker, socket: &OwnedFd, text: &'static str, is_head: bool) {
    let reply = Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text);
    let writing = Writing {
        is_head,
        connection: Some(tollgate_http::Connection::Close),
        ..Writing::whole(worker.clock.date())
    };
    let mut replies = Replies::default();
    let tally = RouteTally { status: reply.status, begun: Instant::now(), route: None };
    replies.push(&reply, None, None, writing, tally);
    replies.count_leaving(&worker.cells);
    // An empty socket takes some hundred bytes; a peer that is gone needs none.
    let _ = send(socket, replies.bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}
