//! Test of a small request during downloads whose peers read as fast as the server sends. The request
//! succeeds only because the worker gives each connection a turn.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{spawn_local, yield_now};

use super::found::site;
use crate::peer::PATIENCE;

const LARGE_BYTES: usize = 16 << 20;
const DOWNLOADS: usize = 8;
/// Maximum number of bytes that a download gets before the small reply. The number allows a few turns, and is
/// much less than a file.
const LEAD_BYTES_MAX: usize = 1 << 20;

/// A peer that sends one request, and reads every byte as soon as it arrives.
#[derive(Clone)]
struct Greedy {
    request: Rc<RefCell<Vec<u8>>>,
    taken: Rc<RefCell<Vec<u8>>>,
}

impl Greedy {
    fn asking(target: &str) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
        Self { request: Rc::new(RefCell::new(request)), taken: Rc::default() }
    }

    fn bytes(&self) -> usize {
        self.taken.borrow().len()
    }
}

impl AsyncRead for Greedy {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(&std::mem::take(&mut *self.request.borrow_mut()));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Greedy {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.taken.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

async fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never was so");
        yield_now().await;
    }
}

#[test]
fn a_small_request_gets_its_turn_among_greedy_downloads() {
    let site = site()
        .file("public/large", vec![b'x'; LARGE_BYTES])
        .tune(|options| options.capacity.queue_age_max = Duration::from_secs(600));
    site.on_this_thread(async |server| {
        let serve = |peer: &Greedy| {
            let (server, peer) = (server.clone(), peer.clone());
            spawn_local(async move { server.serve(peer, IpAddr::V4(Ipv4Addr::LOCALHOST)).await })
        };
        // After this request, the file is cached, so that no thread needs to look it up.
        serve(&Greedy::asking("/a.txt")).await.unwrap();
        let downloads: Vec<_> = (0..DOWNLOADS).map(|_| Greedy::asking("/large")).collect();
        let mut served: Vec<_> = downloads.iter().map(serve).collect();
        let small = Greedy::asking("/a.txt");
        // This connection begins after all downloads.
        served.push(serve(&small));
        wait_until(|| small.taken.borrow().ends_with(b"\r\n\r\nalpha")).await;
        for download in &downloads {
            let lead = download.bytes();
            assert!(lead < LEAD_BYTES_MAX, "{lead} bytes of a download went before");
        }
        for served in served {
            served.await.unwrap();
        }
        assert!(downloads.iter().all(|download| download.bytes() > LARGE_BYTES));
    });
}
