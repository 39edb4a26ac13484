//! The admin listener: health, metrics, status and a page for browsers over HTTP. The listener has a separate
//! socket and never uses the public sockets.
//!
//! One thread waits for all clients with poll(2). The listener shares no thread, no runtime and no queue with
//! the public requests. It therefore answers while requests flood the server, while no descriptor is left,
//! and while a worker hangs. The number of clients and the time of each client are bounded. At the bound a
//! new client replaces the oldest. Each client gets one answer.
//!
//! The listener never changes the state of the server: it accepts only GET and HEAD.

mod access;
mod answer;
mod client;
mod listener;
mod page;
mod reply;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use socket2::Socket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::config::Admin;
use crate::observe::Observer;
pub(crate) use access::Access;
pub(crate) use answer::Answering;
use answer::Answers;
use client::AdminClient;
pub(crate) use listener::{AdminListener, Bound};
pub(crate) use reply::AdminReply;

/// Maximum number of clients at the same time.
const CLIENTS_MAX: usize = 32;
/// Pause in accepting after the system had no descriptor for a client.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers clients until it is dropped.
pub(crate) struct AdminServer {
    bound: Bound,
    /// A copy for a successor.
    socket: Socket,
    outlives_us: Arc<AtomicBool>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Begins to answer, if the configuration gives an address. If the default socket cannot be made, the
    /// server runs without the admin listener.
    ///
    /// # Errors
    /// The address is in use, or the thread cannot be started.
    pub(crate) fn start(config: &Admin, observer: &Observer) -> anyhow::Result<Option<Self>> {
        match AdminListener::bind(&config.listen)? {
            Some(listener) => Self::answer(listener, config, observer).map(Some),
            None => Ok(None),
        }
    }

    /// Begins to answer the clients of a socket that a predecessor handed over. This server owns the socket.
    ///
    /// # Errors
    /// The socket is no listener, or the thread cannot be started.
    pub(crate) fn take_over(config: &Admin, observer: &Observer, socket: OwnedFd) -> anyhow::Result<Self> {
        let listener = AdminListener::adopt(&config.listen, socket).context("cannot use the admin socket")?;
        let server = Self::answer(listener, config, observer)?;
        server.outlives_us.store(false, Ordering::Release);
        Ok(server)
    }

    fn answer(listener: AdminListener, config: &Admin, observer: &Observer) -> anyhow::Result<Self> {
        Self::serve(listener, Answers::new(observer.clone(), Access::new(config)))
    }

    /// Returns a copy of the socket, for a successor.
    ///
    /// # Errors
    /// The system has no free descriptor.
    pub(crate) fn socket(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    /// Ends, and leaves the socket and its file to a successor.
    pub(crate) fn leave(self) {
        self.outlives_us.store(true, Ordering::Release);
    }

    /// Begins to answer the clients of a listener.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn serve(listener: AdminListener, answers: impl Answering) -> anyhow::Result<Self> {
        let bound = listener.bound().clone();
        let (socket, outlives_us) = (listener.copy()?, listener.outlives_us());
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut serving = Serving { listener, answers, clients: Vec::new(), resume_at: None };
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || serving.run(&stopped));
        let thread = Some(thread.context("cannot start the thread of the admin listener")?);
        Ok(Self { bound, socket, outlives_us, stop, thread })
    }

    /// Returns the address of the listener.
    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        // A write to an eventfd has eight bytes. The write fails only if the thread has ended already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Serving<A> {
    listener: AdminListener,
    answers: A,
    /// The clients, the oldest first.
    clients: Vec<AdminClient>,
    /// The time when accepting resumes, after the system had no descriptor for a client.
    resume_at: Option<Instant>,
}

impl<A: Answering> Serving<A> {
    fn run(&mut self, stopped: &OwnedFd) {
        loop {
            let ready = self.wait(stopped);
            let [is_stopped, is_accepting, ready @ ..] = &ready[..] else { return };
            if *is_stopped {
                return;
            }
            for (client, _) in self.clients.iter_mut().zip(ready).filter(|(_, is_ready)| **is_ready) {
                client.go_on(&self.answers);
            }
            let now = Instant::now();
            self.clients.retain(|client| !client.is_over(now));
            if *is_accepting {
                self.accept();
            }
        }
    }

    /// Waits until a descriptor is ready. Returns for each descriptor whether it is ready: the stop signal,
    /// the listener, then the clients.
    fn wait(&self, stopped: &OwnedFd) -> Vec<bool> {
        let now = Instant::now();
        let pause = self.resume_at.filter(|at| *at > now);
        let listening = if pause.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), listening),
        ];
        for client in &self.clients {
            fds.push(PollFd::from_borrowed_fd(client.as_fd(), client.interest()));
        }
        let next = self.clients.iter().map(AdminClient::deadline).chain(pause).min();
        let left = next.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        // An error means that the call was interrupted, or that memory was short for a moment. Every
        // descriptor is then treated as ready.
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => fds.iter().map(|fd| !fd.revents().is_empty()).collect(),
            Err(_) => fds.iter().enumerate().map(|(index, _)| index > 0).collect(),
        }
    }

    fn accept(&mut self) {
        self.resume_at = None;
        match self.listener.accept() {
            Ok(Some(socket)) => {
                if self.clients.len() >= CLIENTS_MAX {
                    self.clients.remove(0);
                }
                self.clients.push(AdminClient::new(socket));
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "the admin listener cannot accept a connection, it tries again");
                self.resume_at = Some(Instant::now() + ACCEPT_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests;
