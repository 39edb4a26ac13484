//! Accepts and counts connections, and hands each to the worker with the fewest connections. This is step 1
//! of a transaction.
//!
//! The descriptor budget has one descriptor for each allowed connection. If the system nevertheless has no
//! free descriptor, accepting pauses and connections wait in the kernel.

mod accepted;
mod inboxes;
mod refuse;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

use crate::conn::Origin;
use crate::listen::{Acceptance, Listener, OutlivesUs, SocketFamily};
use crate::observe::Refusal;
use crate::overload::{AcceptPacing, Fate};
use crate::sys;
use crate::worker::{Order, Worker};
pub(crate) use accepted::Accepted;
use accepted::Start;
pub(crate) use inboxes::Inboxes;
use refuse::{refuse, turn_away};
use tollgate_meter::Episode;

/// Pause of accepting after an error of the system, such as no descriptors or no memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of accept calls that empty the queue of a listener. Without a bound, an error that leaves
/// the queue unchanged would repeat forever.
const QUEUED_MAX: usize = 1 << 16;

/// One listening socket of a worker.
pub(crate) struct Acceptor {
    socket: AsyncFd<OwnedFd>,
    family: SocketFamily,
    proxy_protocol: bool,
    acceptance: Acceptance,
    tls: bool,
    redirect_to_https: bool,
    outlives_us: OutlivesUs,
    inboxes: Arc<Inboxes>,
}

impl Acceptor {
    /// # Errors
    /// The runtime cannot register the socket.
    pub(crate) fn new(listener: Listener, inboxes: &Arc<Inboxes>) -> io::Result<Self> {
        Ok(Self {
            socket: sys::readable(listener.socket)?,
            family: listener.family,
            proxy_protocol: listener.proxy_protocol,
            acceptance: listener.acceptance,
            tls: listener.tls,
            redirect_to_https: listener.redirect_to_https,
            outlives_us: listener.outlives_us,
            inboxes: inboxes.clone(),
        })
    }

    /// Accepts connections until the worker drains, and then the connections that are already queued.
    pub(crate) async fn run(self, worker: Rc<Worker>, mut orders: watch::Receiver<Order>) {
        let mut pacing = AcceptPacing::new(self.socket.get_ref());
        let mut draining = pin!(orders.wait_for(|order| *order == Order::Drain));
        while let Some(accepted) = poll_fn(|context| match self.poll_accept(context, &mut pacing) {
            Poll::Pending => draining.as_mut().poll(context).map(|_| None),
            accepted => accepted.map(Some),
        })
        .await
        {
            let served = match accepted {
                Ok((socket, peer)) => {
                    worker.cells.count_accepted();
                    let stays = match pacing.fate() {
                        Fate::Served => Some(socket),
                        Fate::Refused => turn_away(&worker, socket, self.tls),
                    };
                    stays.map_or(Poll::Pending, |socket| {
                        let start = self.start(&pacing);
                        self.place(&worker, socket, peer, start)
                    })
                }
                Err(error) => {
                    self.failed(&worker, &error).await;
                    Poll::Pending
                }
            };
            pacing.pass(served, self.socket.get_ref(), worker.admission.age_max()).await;
        }
        // If the socket stays open, the next process accepts the connections in its queue.
        if !self.outlives_us.is_set()
            && let Err(error) = self.accept_queued(&worker)
        {
            tracing::warn!(%error, "the worker lost queued connections, because it could not accept them");
        }
    }

    /// Accepts a connection. The runtime is asked only if no connection waits. The runtime answers a task
    /// only a limited number of times, and then ends the turn of the task.
    fn poll_accept(
        &self,
        context: &mut Context<'_>,
        pacing: &mut AcceptPacing,
    ) -> Poll<io::Result<(OwnedFd, Option<IpAddr>)>> {
        loop {
            let accept = |socket: &OwnedFd| accept(socket).inspect_err(|_| pacing.forgive());
            match self.socket.try_io(Interest::READABLE, accept) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => return Poll::Ready(accepted),
            }
            ready!(self.socket.poll_read_ready(context))?.retain_ready();
        }
    }

    /// Accepts the queued connections without the runtime, because the runtime may not have noticed the last
    /// connections.
    fn accept_queued(&self, worker: &Rc<Worker>) -> io::Result<()> {
        for queued in queued(|| accept(self.socket.get_ref())) {
            let (socket, peer) = queued?;
            worker.cells.count_accepted();
            let _ = self.place(worker, socket, peer, Start::InTask);
        }
        Ok(())
    }

    /// Hands a connection to the worker with the fewest connections. Returns ready if it was served to its
    /// end.
    fn place(&self, worker: &Rc<Worker>, socket: OwnedFd, peer: Option<IpAddr>, start: Start) -> Poll<()> {
        let (family, capacity) = (self.family, &worker.capacity);
        let Some(permit) = capacity.enter(worker.index) else {
            unserved(worker, &worker.unserved.connections);
            refuse(worker, socket, family, self.tls);
            return Poll::Pending;
        };
        let Self { proxy_protocol, tls, redirect_to_https, .. } = *self;
        let origin = Origin { peer, proxy_protocol, tls, redirect_to_https };
        let accepted = Accepted { permit, socket, family, acceptance: self.acceptance, origin };
        match capacity.emptier_than(worker.index) {
            Some(other) => match self.inboxes.hand_over(accepted, other) {
                Ok(()) => Poll::Pending,
                Err(accepted) => accepted.serve(worker, start),
            },
            None => accepted.serve(worker, start),
        }
    }

    /// Returns the place where the next connection is polled first.
    fn start(&self, pacing: &AcceptPacing) -> Start {
        if self.acceptance == Acceptance::WithBytes && !self.tls && pacing.has_time() {
            Start::AtOnce
        } else {
            Start::InTask
        }
    }

    async fn failed(&self, worker: &Worker, error: &io::Error) {
        match Errno::from_io_error(error) {
            _ if is_of_one_connection(error) => {}
            Some(Errno::MFILE | Errno::NFILE) => {
                worker.cells.count_refusal(Refusal::Descriptors);
                unserved(worker, &worker.unserved.descriptors);
                tokio::time::sleep(PAUSE).await;
            }
            _ => {
                tracing::debug!(%error, "cannot accept a connection");
                unserved(worker, &worker.unserved.failures);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Counts a connection that is not served. The first such connection is logged at once.
fn unserved(worker: &Worker, reason: &Episode) {
    reason.note();
    worker.unserved.log_news(worker.clock.coarse(), worker.index);
}

/// Serves the connections that other workers hand over, until the worker drains and its inbox is empty.
pub(crate) async fn take_over(
    worker: Rc<Worker>,
    mut inbox: mpsc::Receiver<Accepted>,
    mut orders: watch::Receiver<Order>,
) {
    loop {
        tokio::select! {
            biased;
            Some(accepted) = inbox.recv() => drop(accepted.serve(&worker, Start::InTask)),
            _ = orders.wait_for(|order| *order == Order::Drain) => break,
        }
    }
    // From now on, an acceptor that hands over a connection gets it back.
    inbox.close();
    while let Some(accepted) = inbox.recv().await {
        let _ = accepted.serve(&worker, Start::InTask);
    }
}

/// Returns the connections in the queue of a listener. Errors of a single connection are skipped.
fn queued<T>(accept: impl FnMut() -> io::Result<T>) -> impl Iterator<Item = io::Result<T>> {
    let is_there =
        |came: &io::Result<T>| !matches!(came, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    let is_ours = |came: &io::Result<T>| !matches!(came, Err(error) if is_of_one_connection(error));
    std::iter::repeat_with(accept).take(QUEUED_MAX).take_while(is_there).filter(is_ours)
}

/// Returns whether an error of accept(2) concerns only the connection. Such an error usually means that the
/// peer left, which needs no log line.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::INTR
                | Errno::PERM
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH,
        )
    )
}

fn accept(listener: &OwnedFd) -> io::Result<(OwnedFd, Option<IpAddr>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::net::acceptfrom_with(listener, flags).map_err(|error| match error {
        // The system looks for a descriptor before it looks for a connection. The error is therefore ignored
        // if no connection waits.
        Errno::MFILE | Errno::NFILE if !is_readable(listener) => Errno::AGAIN,
        error => error,
    })?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    Ok((socket, peer.map(|peer| peer.ip().to_canonical())))
}

/// Returns whether a connection waits to be accepted.
fn is_readable(listener: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(listener, PollFlags::IN)];
    // If poll fails, the error of accept is reported.
    poll(&mut asked, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use tokio::runtime::{Builder, LocalOptions};

    use super::*;
    use crate::listen::Listeners;
    use crate::options::tests::options;
    use crate::options::{BoundAddress, ServerOptions};

    #[test]
    fn all_who_wait_can_be_accepted_in_one_turn() {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            const WAITING: usize = 300;
            let mut listeners = Listeners::bind(&ServerOptions { backlog: 600, ..options() }).unwrap();
            let [BoundAddress::Tcp(address)] = listeners.addresses() else { panic!("no TCP address") };
            let _peers: Vec<_> = (0..WAITING).map(|_| TcpStream::connect(address).unwrap()).collect();
            let acceptor = Acceptor::new(listeners.by_worker[0].remove(0), &Inboxes::new(1).0).unwrap();
            let mut pacing = AcceptPacing::new(acceptor.socket.get_ref());
            poll_fn(|context| acceptor.poll_accept(context, &mut pacing)).await.unwrap();
            let mut accepted = 1;
            poll_fn(|context| {
                while let Poll::Ready(peer) = acceptor.poll_accept(context, &mut pacing) {
                    accepted += usize::from(peer.is_ok());
                }
                Poll::Ready(())
            })
            .await;
            assert_eq!(accepted, WAITING);
        });
    }

    #[test]
    fn a_listener_is_readable_while_a_connection_waits() {
        let mut listeners = Listeners::bind(&options()).unwrap();
        let address = listeners.addresses()[0].tcp().unwrap();
        let listener = listeners.by_worker[0].remove(0).socket;
        assert!(!is_readable(&listener));
        let _peer = TcpStream::connect(address).unwrap();
        assert!(is_readable(&listener));
        accept(&listener).unwrap();
        assert!(!is_readable(&listener));
    }

    #[test]
    fn a_connection_that_left_the_queue_leaves_the_others_there() {
        let check = |came: &[Result<u8, Errno>], expect: &[Result<u8, Errno>]| {
            let mut came = came.iter().copied();
            let mut accepted = queued(|| came.next().unwrap().map_err(io::Error::from));
            for expect in expect {
                let found = accepted.next().unwrap();
                assert_eq!(found.map_err(|error| Errno::from_io_error(&error).unwrap()), *expect);
            }
        };
        check(&[Ok(1), Err(Errno::CONNABORTED), Err(Errno::INTR), Ok(2)], &[Ok(1), Ok(2)]);
        check(&[Err(Errno::PROTO), Err(Errno::MFILE)], &[Err(Errno::MFILE)]);
        for error in [Errno::AGAIN, Errno::PERM] {
            assert!(queued(|| -> io::Result<()> { Err(error.into()) }).next().is_none());
        }
    }
}
