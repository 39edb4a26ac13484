//! Tests of the script queue for the scripts of a connection, and of the memory that their results hold.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tollgate_files::FilesSpec;
use tollgate_http::{HeadReader, Limits};

use super::running_request::RunningRequest;
use crate::conn::bench::{Bench, head, in_turns};
use crate::options::{CapacityLimits, HandlerSpec, RouteSpec, ScriptFile};
use crate::overload::HeldMemory;
use crate::worker::Worker;

impl Bench {
    /// Returns whether a script of the route for `target` is in the script queue. Requests of such a route
    /// are refused if the queue is too long.
    fn is_inside(&self, target: &str) -> bool {
        let Worker { script_queue, recorder, .. } = &*self.worker;
        script_queue.set_age_max(Duration::ZERO);
        let _others: Vec<_> = (0..3).map(|_| script_queue.enter()).collect();
        let head = HeadReader::default()
            .read(&mut BytesMut::from(head(target).as_bytes()), &Limits::default())
            .unwrap()
            .unwrap();
        let service = self.worker.service();
        let found = service.find(&head).unwrap_or_else(|_| panic!("{target} has no route"));
        found.endpoint.refusal_now(Instant::now(), recorder).is_some()
    }
}

#[test]
fn a_script_that_passed_counts_for_the_route_that_runs_it_now() {
    in_turns(async {
        let bench = Bench::new(&[
            ("/a/{name}", "while not tollgate.shared.get('go') do end return tollgate.pass"),
            ("/a/*", "while true do end"),
            ("/go", "tollgate.shared.set('go', true)"),
        ]);
        let _peer = bench.send(&["/a/b"]).await;
        bench.until("the first route has a script in the script queue", || bench.is_inside("/a/b")).await;
        assert!(!bench.is_inside("/a/b/c"));
        let _other = bench.send(&["/go"]).await;
        bench.until("the next route has it", || bench.is_inside("/a/b/c")).await;
        assert!(!bench.is_inside("/a/b"));
    });
}

#[test]
fn scripts_of_a_pipeline_count_for_their_routes_each() {
    in_turns(async {
        let bench = Bench::new(&[("/a", "while true do end"), ("/b", "while true do end")]);
        let _peer = bench.send(&["/a", "/b"]).await;
        bench
            .until("both routes have a script in the script queue", || {
                bench.is_inside("/a") && bench.is_inside("/b")
            })
            .await;
        assert_eq!(bench.worker.script_queue.len(), 1);
    });
}

#[test]
fn slices_of_a_pipeline_count_whichever_of_its_scripts_runs_them() {
    in_turns(async {
        let bench = Bench::new(&[
            ("/first", "while true do end"),
            ("/entered", "tollgate.shared.incr('entered', 1, 0) while true do end"),
            (
                "/behind",
                "while not tollgate.shared.get('entered') do end return tostring(tollgate.shared.get('entered'))",
            ),
        ]);
        let first = bench.send(&["/first"]).await;
        bench.until("it is first", || bench.worker.script_queue.len() == 1).await;
        let behind = bench.send(&["/behind"]).await;
        bench.until("the other is behind it", || bench.worker.script_queue.len() == 2).await;
        let _first = bench.send_more(first, &["/entered"; 30]).await;
        let reply = bench.reply(behind).await;
        let entered: usize = reply.split("\r\n\r\n").nth(1).unwrap().parse().unwrap();
        // The bound is one round, and the slices that the pipeline runs before the other connection has its
        // turn.
        assert!(entered <= 10, "{entered} slices");
    });
}

#[test]
fn one_of_many_long_scripts_runs_and_the_others_wait_for_their_turn() {
    in_turns(async {
        let bench = Bench::new(&[
            (
                "/long",
                "tollgate.shared.incr('begun', 1, 0) while not tollgate.shared.get('go') do end return 204",
            ),
            ("/begun", "return tostring(tollgate.shared.get('begun'))"),
            ("/go", "tollgate.shared.set('go', true)"),
        ]);
        let mut others = Vec::new();
        for _ in 0..20 {
            others.push(bench.send(&["/long"]).await);
        }
        let short = bench.send(&["/begun"]).await;
        bench.until("all are in the script queue", || bench.worker.script_queue.len() == 20).await;
        let reply = bench.reply(short).await;
        // On a slow machine, the time of the first script may end before the short one has its turn.
        let begun: usize = reply.split("\r\n\r\n").nth(1).unwrap().parse().unwrap();
        assert!((1..10).contains(&begun), "{begun} of 20 long scripts began");
        let _opener = bench.send(&["/go"]).await;
        for peer in others {
            let reply = bench.reply(peer).await;
            assert!(reply.starts_with("HTTP/1.1 204"), "{reply}");
        }
        assert_eq!(bench.worker.script_queue.len(), 0);
    });
}

#[test]
fn long_scripts_of_one_pipeline_wait_for_their_turn_too() {
    in_turns(async {
        let bench = Bench::new(&[
            ("/long", "tollgate.shared.incr('begun', 1, 0) while true do end"),
            ("/begun", "return tostring(tollgate.shared.get('begun'))"),
        ]);
        let _first = bench.send(&["/long"]).await;
        bench.until("it is in the script queue", || bench.worker.script_queue.len() == 1).await;
        let _pipeline = bench.send(&["/long"; 5]).await;
        bench.until("they are as well", || bench.worker.script_queue.len() == 2).await;
        let reply = bench.reply(bench.send(&["/begun"]).await).await;
        assert!(reply.ends_with("\r\n\r\n1"), "{reply}");
    });
}

#[test]
fn requests_that_wait_to_begin_are_refused_and_begun_ones_wait_for_room() {
    in_turns(async {
        let long = "while tollgate.shared.incr('long', 1, 0) < 2000000 do end return 204";
        let bench = Bench::with(&[("/long", long)], |routes, folder| {
            fs::write(folder.join("file"), "of a file").unwrap();
            let script = |name: &str, body: &str| {
                let file = folder.join(name);
                fs::write(&file, format!("return function() {body} end")).unwrap();
                ScriptFile { file, root: folder.to_owned() }
            };
            // A thread has to look for codings of this file, because no earlier request asked for the file.
            let mut ran =
                RouteSpec::new("/ran/*", HandlerSpec::Files(Box::new(FilesSpec::new(folder.to_owned()))));
            let body =
                "local t = tollgate.time.monotonic_us() + 1300 while tollgate.time.monotonic_us() < t do end";
            ran.before.push(script("before.luau", body));
            routes.push(ran);
            let after = script("after.luau", "return { headers = { ['x-after'] = 'told' } }");
            routes.iter_mut().for_each(|route| route.after.push(after.clone()));
        });
        let first = bench.send(&["/long"]).await;
        bench.until("the first is in the script queue", || bench.worker.script_queue.len() == 1).await;
        let ran = bench.send(&["/ran/file"]).await;
        bench.until("a reply waits to be told to `after`", || bench.worker.script_queue.len() == 2).await;
        let waiting = bench.send(&["/long"]).await;
        bench.until("another waits to begin", || bench.worker.script_queue.len() == 3).await;
        let held = HeldMemory::new(&bench.capacity);
        held.set(usize::MAX >> 1);
        assert!(bench.capacity.is_full() && bench.worker.script_queue.len() == 3);
        let reply = bench.reply(waiting).await;
        assert!(reply.starts_with("HTTP/1.1 503 ") && !reply.contains("x-after"), "{reply}");
        // Requests that have begun wait for memory, and continue when memory is available.
        assert_eq!(bench.worker.script_queue.len(), 0);
        drop(held);
        for (peer, expected) in [(first, "HTTP/1.1 204 "), (ran, "HTTP/1.1 200 ")] {
            let reply = bench.reply(peer).await;
            assert!(reply.starts_with(expected), "{expected}: {reply}");
            assert!(reply.contains("\r\nx-after: told\r\n"), "{reply}");
        }
    });
}

/// Scripts for the tests. `/slow` exceeds its slices until a request sets `go`. `/big` returns a megabyte,
/// and `/made` returns the number of calls of `/big`.
const BIG: [(&str, &str); 5] = [
    ("/slow", "while not tollgate.shared.get('go') do end return 204"),
    ("/go", "tollgate.shared.set('go', true) return 204"),
    ("/stop", "tollgate.shared.set('go', false) return 204"),
    ("/big", "tollgate.shared.incr('made', 1, 0) return string.rep('x', 1000000)"),
    ("/made", "return tostring(tollgate.shared.get('made') or 0)"),
];
const MEGABYTE: u64 = 1_000_000;

impl Bench {
    fn hold_at_most(&self, in_flight_bytes_max: u64) {
        self.capacity.limit(&CapacityLimits { in_flight_bytes_max, ..CapacityLimits::default() });
    }

    /// Returns the content of the reply on a new connection.
    async fn ask(&self, target: &str) -> String {
        let reply = self.reply(self.send(&[target]).await).await;
        reply.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
    }
}

#[test]
fn replies_behind_a_slow_handler_are_made_as_the_client_takes_those_before_them() {
    in_turns(async {
        let bench = Bench::with(&BIG, |routes, _| {
            let body = "x".repeat(MEGABYTE as usize).into();
            let reply = HandlerSpec::Reply { status: 200, content_type: "text/plain".to_owned(), body };
            routes.push(RouteSpec::new("/fixed", reply));
        });
        for (target, count) in [("/big", 30), ("/fixed", 30)] {
            bench.ask("/stop").await;
            let made_before: usize = bench.ask("/made").await.parse().unwrap();
            let mut targets = vec!["/slow"];
            targets.resize(count + 1, target);
            let peer = bench.send(&targets).await;
            bench.until("it runs over its slice", || bench.worker.script_queue.len() == 1).await;
            bench.ask("/go").await;
            bench.until("a reply is there", || bench.capacity.held_bytes() > MEGABYTE / 2).await;
            for _ in 0..50 {
                let made: usize = bench.ask("/made").await.parse().unwrap();
                let made = made - made_before;
                assert!(made <= 2, "{made} replies that nobody takes");
                assert!(bench.capacity.held_bytes() < 3 * MEGABYTE, "{} bytes", bench.capacity.held_bytes());
            }
            let replies = bench.reply(peer).await;
            assert_eq!(replies.matches("HTTP/1.1 200 OK").count(), count);
        }
    });
}

#[test]
fn connections_whose_handlers_go_on_together_hold_no_more_than_all_may() {
    in_turns(async {
        let bench = Bench::new(&BIG);
        bench.hold_at_most(6 * MEGABYTE);
        let mut peers = Vec::new();
        for _ in 0..30 {
            let mut targets = vec!["/slow"];
            targets.resize(11, "/big");
            peers.push(bench.send(&targets).await);
        }
        bench.until("all run over their slice", || bench.worker.script_queue.len() == 30).await;
        let opener = bench.send(&["/go"]).await;
        let held_max = Cell::new(0);
        let begun = Instant::now();
        bench
            .until("some were cut off, and the others wait", || {
                held_max.set(held_max.get().max(bench.capacity.held_bytes()));
                begun.elapsed() > Duration::from_millis(1) && bench.worker.script_queue.len() == 0
            })
            .await;
        drop(opener);
        assert!(held_max.get() > MEGABYTE, "{} bytes", held_max.get());
        assert!(held_max.get() < 8 * MEGABYTE, "{} bytes", held_max.get());
    });
}

#[test]
fn first_handlers_wait_for_room_before_they_make_a_long_reply() {
    in_turns(async {
        let long = "tollgate.sleep(0.02) return string.rep('x', 1000000)";
        let bench = Bench::with(&[("/long", long), BIG[1]], |routes, folder| {
            let file = folder.join("after.luau");
            fs::write(
                &file,
                "return function() while not tollgate.shared.get('go') do tollgate.sleep(0.01) end end",
            )
            .unwrap();
            routes[0].after.push(ScriptFile { file, root: folder.to_owned() });
        });
        bench.hold_at_most(6 * MEGABYTE);
        let mut peers = Vec::new();
        for _ in 0..20 {
            peers.push(bench.send(&["/long"]).await);
        }
        bench.until("some have made their replies", || bench.capacity.held_bytes() > 4 * MEGABYTE).await;
        let begun = Instant::now();
        let held_max = Cell::new(0);
        bench
            .until("the others had their turn", || {
                held_max.set(held_max.get().max(bench.capacity.held_bytes()));
                begun.elapsed() > Duration::from_millis(100) && bench.worker.script_queue.len() == 0
            })
            .await;
        assert!(held_max.get() < 7 * MEGABYTE, "{} bytes", held_max.get());
        bench.ask("/go").await;
        drop(peers);
        bench.until("all is given back", || bench.capacity.held_bytes() == 0).await;
    });
}

#[test]
fn requests_that_wait_count_with_all_that_they_take() {
    in_turns(async {
        let bench = Bench::new(&BIG);
        let mut targets = vec!["/slow"];
        targets.resize(100, "/made");
        let _peer = bench.send(&targets).await;
        // For each request, at least the memory of its entry in the queue and of its `Request` counts.
        let least = 99 * (size_of::<RunningRequest>() + size_of::<tollgate_script::Request>());
        bench.until("all count", || bench.capacity.held_bytes() > least as u64).await;
    });
}
