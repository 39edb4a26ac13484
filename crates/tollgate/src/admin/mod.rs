//! The admin listener: health, metrics and status over HTTP, on a socket of their own, never on the public
//! ones.
//!
//! One thread waits for all of it with poll(2): it shares no thread, no runtime and no place in a queue with
//! those who are served, so it answers while they flood the server, while no descriptor is left, and while a
//! worker does not turn. There are so many clients at most, each with so much time; one more takes the place
//! of the oldest. Each has one answer.
//!
//! It changes nothing: GET and HEAD are all that it takes.

mod access;
mod answer;
mod client;
mod listener;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::config::Admin;
use crate::observe::Observer;
use access::Access;
use answer::Answers;
use client::AdminClient;
use listener::AdminListener;
pub(crate) use listener::Bound;

/// Clients at the same time.
const CLIENTS_MAX: usize = 32;
/// How long nobody is accepted after the system had no descriptor for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers until it is dropped.
pub(crate) struct AdminServer {
    bound: Bound,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Begins to answer, if the configuration says where. A socket that nobody asked for is done without if
    /// it cannot be had.
    ///
    /// # Errors
    /// The address is somebody else's, or there is no thread.
    pub(crate) fn start(config: &Admin, observer: &Observer) -> anyhow::Result<Option<Self>> {
        let Some(listener) = AdminListener::bind(&config.listen)? else { return Ok(None) };
        let bound = listener.bound.clone();
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let answers = Answers::new(observer.clone(), Access::new(config));
        let mut serving = Serving { listener, answers, clients: Vec::new(), resume_at: None };
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || serving.run(&stopped));
        let thread = Some(thread.context("cannot start a thread")?);
        Ok(Some(Self { bound, stop, thread }))
    }

    /// Where it is.
    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        // An eventfd takes eight bytes; a thread that is gone needs none.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Serving {
    listener: AdminListener,
    answers: Answers,
    /// The oldest first.
    clients: Vec<AdminClient>,
    /// When clients are accepted again.
    resume_at: Option<Instant>,
}

impl Serving {
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

    /// Waits until somebody can go on; says who: the one that stops us, the listener, then the clients.
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
        // Interrupted, or out of memory for a moment: everybody is asked.
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
                tracing::debug!(%error, "the admin listener cannot accept, trying again");
                self.resume_at = Some(Instant::now() + ACCEPT_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests;
