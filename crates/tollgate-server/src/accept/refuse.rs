//! Replies to connections that are not served.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;
use tollgate_http::StatusCode;

use crate::access_log::AccessEntry;
use crate::conn::{self, Replies, Socket};
use crate::listen::SocketFamily;
use crate::observe::{Refusal, RouteTally};
use crate::overload::refusal_text;
use crate::reply::{Reply, Writing};
use crate::worker::Worker;

/// Maximum number of connections of a worker that tasks refuse at the same time. Any further connection gets
/// the reply at once, before it sends a request.
const REFUSALS_AT_ONCE_MAX: usize = 64;
/// Maximum bytes of one read of a request before a refusal. `TURNED_AWAY_READS_MAX` limits the number of
/// reads.
const TURNED_AWAY_BYTES: usize = 16 << 10;
const TURNED_AWAY_READS_MAX: usize = 16;

/// Refuses a connection because the maximum number is reached. A task sends the refusal, unless too many such
/// tasks run. With TLS the connection is closed without a reply, because the reply would need a handshake.
pub(super) fn refuse(worker: &Rc<Worker>, socket: OwnedFd, family: SocketFamily, tls: bool) {
    worker.cells.count_refusal(Refusal::Connections);
    if tls {
        return;
    }
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

/// Refuses a connection that would wait too long.
///
/// The request is already in the socket and is read first. A close with unread bytes would destroy the reply
/// (RFC 9112 section 9.6). If the client has sent nothing, it waits for no reply, and the connection is
/// returned.
pub(super) fn turn_away(worker: &Worker, socket: OwnedFd, tls: bool) -> Option<OwnedFd> {
    let mut asked = [0; TURNED_AWAY_BYTES];
    match recv(&socket, &mut asked, RecvFlags::DONTWAIT) {
        Ok((_, bytes)) => {
            worker.cells.count_refusal(Refusal::Behind);
            worker.admission.note_turned_away();
            if tls {
                return None;
            }
            let is_head = asked[..bytes].starts_with(b"HEAD ");
            if bytes == TURNED_AWAY_BYTES {
                pass_over(&socket, &mut asked);
            }
            send_refusal(worker, &socket, refusal_text::BEHIND, is_head);
            None
        }
        Err(Errno::AGAIN) => Some(socket),
        // The peer is gone.
        Err(_) => None,
    }
}

/// Reads and drops the remaining received bytes.
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
    if let Some(mut line) = begin_line(worker) {
        let content_bytes = if is_head { 0 } else { reply.content_bytes() };
        line.note_reply(reply.status, reply.outcome(), None, content_bytes);
        replies.describe_last(line);
    }
    replies.count_leaving(&worker.cells);
    // The send buffer is empty and has space for these few hundred bytes. If the peer is gone, the error does
    // not matter.
    let _ = send(socket, replies.bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    replies.clear();
}

/// Begins the line of a request that is not parsed, if there is an access log.
fn begin_line(worker: &Worker) -> Option<Box<AccessEntry>> {
    let rules = worker.rules();
    let log = rules.access_log.as_ref()?;
    AccessEntry::unread(&worker.access_lines, log, worker.clock.now(), None)
}
