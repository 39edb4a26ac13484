//! The price of a call; prints figures, proves nothing.
//! `cargo test --release -p tollgate-script --test script -- --ignored --nocapture speed`

use std::hint::black_box;
use std::time::Instant;

use tollgate_script::Step;

use crate::app::{App, fields, get, handler_of};

#[test]
#[ignore = "a measurement, in release only"]
fn speed() {
    println!("      ns  handler");
    measure("return 204");
    measure("return { json = { score = 7 }, record = { score = 7 } }");
    measure(
        "local x = tonumber(req.query.x) or 0 return { json = { score = x * 2 + 1 }, record = { score = x * 2 + 1 } }",
    );
    measure("return req.headers['user-agent'] or 'none'");
    measure("local n = 0 for i = 1, 1000 do n += i end return 204");
}

fn measure(body: &str) {
    let app = App::new();
    let handler = app.load(&handler_of(body), &fields(&["score"])).unwrap();
    let request = get("/score?x=20");
    let mut best = f64::MAX;
    for _ in 0..7 {
        let begin = Instant::now();
        for _ in 0..CALLS {
            match handler.call(request.clone()).resume() {
                Step::Done(result) => drop(black_box(result.unwrap())),
                Step::Sliced => {}
            }
        }
        best = best.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    println!("{best:>8.0}  {body}");
}

const CALLS: u32 = 100_000;
