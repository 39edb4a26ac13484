//! The idle connections of one worker to one backend, by address. The most recently used connection is reused
//! first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::BytesMut;

use crate::PoolOptions;
use crate::link::Link;
use crate::target::Target;

pub(crate) struct Pool {
    options: PoolOptions,
    idle: Vec<IdleConnections>,
}

/// The idle connections to one address.
struct IdleConnections {
    target: Arc<Target>,
    /// Idle connections. The connection that has been idle for the longest time comes first.
    links: Vec<Link>,
}

impl Pool {
    pub(crate) fn new(options: PoolOptions) -> Self {
        Self { options, idle: Vec::new() }
    }

    /// Removes a connection to an address from the pool, and returns it. The connection has passed all checks
    /// that a kept connection allows.
    pub(crate) fn take(&mut self, target: &Arc<Target>, now: Instant) -> Option<Link> {
        let options = self.options;
        let connections =
            self.idle.iter_mut().find(|connections| Arc::ptr_eq(&connections.target, target))?;
        while let Some(mut link) = connections.links.pop() {
            connections.target.idle.fetch_sub(1, Ordering::Relaxed);
            if is_fresh(&link, &options, now) && link.is_quiet() {
                return Some(link);
            }
        }
        None
    }

    /// Keeps a connection whose messages both ended cleanly.
    pub(crate) fn put(&mut self, target: &Arc<Target>, mut link: Link, now: Instant) {
        if self.options.idle_max == 0 {
            return;
        }
        link.input = BytesMut::new();
        link.idle_since = now;
        let place = self.idle.iter().position(|connections| Arc::ptr_eq(&connections.target, target));
        let place = place.unwrap_or_else(|| {
            self.idle.push(IdleConnections { target: target.clone(), links: Vec::new() });
            self.idle.len() - 1
        });
        let connections = &mut self.idle[place];
        if connections.links.len() >= self.options.idle_max {
            connections.drop_first(1);
        }
        connections.links.push(link);
        target.idle.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes connections that are idle too long, that the backend closed, or whose address is no longer a
    /// target.
    pub(crate) fn sweep(&mut self, targets: &[Arc<Target>], now: Instant) {
        let options = self.options;
        self.idle.retain(|connections| targets.iter().any(|target| Arc::ptr_eq(target, &connections.target)));
        for connections in &mut self.idle {
            let before = connections.links.len();
            connections.links.retain_mut(|link| is_fresh(link, &options, now) && link.is_quiet());
            connections.target.idle.fetch_sub(before - connections.links.len(), Ordering::Relaxed);
        }
    }
}

impl IdleConnections {
    fn drop_first(&mut self, count: usize) {
        drop(self.links.drain(..count));
        self.target.idle.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.drop_first(self.links.len());
    }
}

fn is_fresh(link: &Link, options: &PoolOptions, now: Instant) -> bool {
    now.saturating_duration_since(link.idle_since) < options.idle_timeout
        && now.saturating_duration_since(link.made) < options.age_max
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::BreakerOptions;
    use crate::target::TargetAddress;

    async fn target() -> (TcpListener, Arc<Target>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = TargetAddress::Tcp(listener.local_addr().unwrap());
        (listener, Arc::new(Target::new(place, &BreakerOptions::default())))
    }

    async fn link(listener: &TcpListener, target: &Target) -> (Link, TcpStream) {
        let link = Link::connect(&target.place, None, &mut crate::Phase::Connect).await.unwrap();
        (link, listener.accept().await.unwrap().0)
    }

    fn idle(target: &Target) -> usize {
        target.idle.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn the_last_one_goes_first_and_the_oldest_makes_room() {
        let (listener, target) = target().await;
        let mut pool = Pool::new(PoolOptions { idle_max: 2, ..PoolOptions::default() });
        let mut peers = Vec::new();
        let now = Instant::now();
        let mut made = Vec::new();
        for _ in 0..3 {
            let (link, peer) = link(&listener, &target).await;
            peers.push(peer);
            made.push(link.made);
            pool.put(&target, link, now);
        }
        assert_eq!(idle(&target), 2);
        let taken = [pool.take(&target, now), pool.take(&target, now)];
        assert_eq!(taken.map(|link| link.unwrap().made), [made[2], made[1]]);
        assert!(pool.take(&target, now).is_none() && idle(&target) == 0);
    }

    #[tokio::test]
    async fn a_connection_idle_for_too_long_or_too_old_is_not_used_again() {
        let (listener, target) = target().await;
        let second = Duration::from_secs(1);
        let options = PoolOptions { idle_max: 9, idle_timeout: second, age_max: 3 * second };
        let mut pool = Pool::new(options);
        let (first, _peer) = link(&listener, &target).await;
        let made = first.made;
        pool.put(&target, first, made);
        assert!(pool.take(&target, made + second).is_none());
        let (old, _peer) = link(&listener, &target).await;
        let made = old.made;
        pool.put(&target, old, made + second * 5 / 2);
        pool.sweep(std::slice::from_ref(&target), made + second * 29 / 10);
        assert_eq!(idle(&target), 1);
        pool.sweep(std::slice::from_ref(&target), made + second * 3);
        assert_eq!(idle(&target), 0);
    }

    #[tokio::test]
    async fn a_connection_that_the_backend_closed_or_wrote_to_is_not_used_again() {
        let (listener, target) = target().await;
        let mut pool = Pool::new(PoolOptions::default());
        let now = Instant::now();
        let (closed, peer) = link(&listener, &target).await;
        pool.put(&target, closed, now);
        drop(peer);
        let (written, mut peer) = link(&listener, &target).await;
        tokio::io::AsyncWriteExt::write_all(&mut peer, b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        pool.put(&target, written, now);
        // The runtime must notice the close of both connections.
        while idle(&target) > 0 {
            tokio::task::yield_now().await;
            pool.sweep(std::slice::from_ref(&target), now);
        }
    }

    #[tokio::test]
    async fn addresses_that_are_gone_take_their_connections_with_them() {
        let (listener, target) = target().await;
        let mut pool = Pool::new(PoolOptions::default());
        let (link, _peer) = link(&listener, &target).await;
        let now = Instant::now();
        pool.put(&target, link, now);
        pool.sweep(&[], now);
        assert!(pool.take(&target, now).is_none() && idle(&target) == 0);
    }
}
