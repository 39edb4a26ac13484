//! Which address is picked.

use std::thread;

use super::*;
use crate::{BackendOptions, BreakerOptions};

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
fn equals_have_their_turns_and_one_that_is_left_alone_doubles_nobodys_share() {
    let backend = backend(3, BreakerOptions { requests_min: 1, ..BreakerOptions::default() });
    let upstream = Rc::new(Upstream::new(&backend));
    assert_eq!([(); 4].map(|()| picked(&upstream)), [0, 1, 2, 0]);
    let lost = &backend.targets()[1];
    lost.reach.lose(backend.ms(Instant::now()));
    assert_eq!([(); 4].map(|()| picked(&upstream)), [2, 0, 2, 0]);
    lost.reach.find();
    lost.conclude("a", Pass::Usual, Verdict::Failure, backend.ms(Instant::now()));
    assert_eq!([(); 4].map(|()| picked(&upstream)), [2, 0, 2, 0]);
}

#[test]
fn what_could_not_be_connected_to_is_asked_where_nothing_else_is_left() {
    let backend = backend(2, BreakerOptions::default());
    let upstream = Rc::new(Upstream::new(&backend));
    backend.targets()[0].reach.lose(backend.ms(Instant::now()));
    let busy = upstream.pick(&[], Instant::now()).unwrap_or_else(|_| panic!("one is there"));
    assert_eq!(picked(&upstream), 1, "though it has more outstanding");
    assert!(upstream.pick(std::slice::from_ref(&busy.target), Instant::now()).is_ok());
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
                attempt.conclude(Verdict::Failure, Instant::now());
            }
        }
    };
    thread::scope(|scope| {
        (0..4).for_each(|_| {
            scope.spawn(picks);
        });
    });
}
