//! The choice of an address.

use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate_http::Method;

use super::*;
use crate::breaker::BreakerPermit;
use crate::{Backend, BackendOptions, BreakerOptions};

fn backend(addresses: usize, breaker: BreakerOptions) -> Arc<Backend> {
    let addresses = (1..=addresses).map(|port| format!("http://127.0.0.1:{port}").parse().unwrap());
    Backend::new(BackendOptions { breaker, ..BackendOptions::new("a", addresses.collect()) })
}

fn picked(upstream: &Rc<Upstream>) -> usize {
    let attempt = upstream.pick(&[], Instant::now()).expect("an address may be asked");
    let targets = upstream.targets();
    targets.iter().position(|target| Arc::ptr_eq(target, &attempt.target)).unwrap()
}

#[test]
fn equal_addresses_have_their_turns_and_one_left_alone_doubles_no_share() {
    let backend = backend(3, BreakerOptions { requests_min: 1, ..BreakerOptions::default() });
    let upstream = Rc::new(Upstream::new(&backend));
    assert_eq!([(); 4].map(|()| picked(&upstream)), [0, 1, 2, 0]);
    let lost = &backend.targets()[1];
    lost.reach.lose(backend.ms(Instant::now()));
    assert_eq!([(); 4].map(|()| picked(&upstream)), [2, 0, 2, 0]);
    lost.reach.find();
    lost.conclude("a", BreakerPermit::Usual, AttemptResult::Failure, backend.ms(Instant::now()));
    assert_eq!([(); 4].map(|()| picked(&upstream)), [2, 0, 2, 0]);
}

#[test]
fn an_address_without_a_connection_is_asked_if_no_other_is_left() {
    let backend = backend(2, BreakerOptions::default());
    let upstream = Rc::new(Upstream::new(&backend));
    backend.targets()[0].reach.lose(backend.ms(Instant::now()));
    let busy = upstream.pick(&[], Instant::now()).unwrap_or_else(|_| panic!("one is there"));
    assert_eq!(picked(&upstream), 1, "though it has more outstanding");
    assert!(upstream.pick(std::slice::from_ref(&busy.target), Instant::now()).is_ok());
}

#[tokio::test]
async fn an_address_that_answers_on_a_kept_connection_is_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let backend = Backend::new(BackendOptions::new("a", vec![address]));
    let upstream = Rc::new(Upstream::new(&backend));
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        while stream.read(&mut request).await.is_ok_and(|bytes| bytes > 0) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        }
    };
    let ask = async |lose: bool| {
        let request = Outgoing::new(Method::Get, "a", |target| target.push(b'/')).finish(None);
        if lose {
            backend.targets()[0].reach.lose(backend.ms(Instant::now()));
        }
        assert!(upstream.clone().send(request, None).await.is_ok());
        backend.targets()[0].reach.is_lost()
    };
    let asked = async {
        assert!(!ask(false).await);
        assert!(!ask(true).await, "it is asked though it is lost, as nothing else is there");
        assert_eq!(backend.snapshot().connects, 1);
    };
    tokio::select! { () = serve => {}, () = asked => {} }
}

#[test]
fn a_place_that_another_worker_takes_first_leaves_the_other_addresses() {
    let breaker = BreakerOptions {
        requests_min: 1,
        open: Duration::from_millis(1),
        probes: 1,
        ..BreakerOptions::default()
    };
    let backend = backend(2, breaker);
    let picks = || {
        let upstream = Rc::new(Upstream::new(&backend));
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            let mut attempt = upstream.pick(&[], Instant::now()).unwrap_or_else(|kind| panic!("{kind}"));
            if Arc::ptr_eq(&attempt.target, &upstream.targets()[0]) {
                attempt.conclude(AttemptResult::Failure, Instant::now());
            }
        }
    };
    thread::scope(|scope| {
        (0..4).for_each(|_| {
            scope.spawn(picks);
        });
    });
}
