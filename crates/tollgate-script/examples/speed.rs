//! The price of a call; prints figures, proves nothing.
//! `cargo run --release -p tollgate-script --example speed`

use std::error::Error;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tempfile::TempDir;
use tollgate_http::{HeadReader, Limits};
use tollgate_script::{Context, Handler, Host, HostOptions, Place, RecordFields, Request, RequestId, Step};
use uuid::Uuid;

const CALLS: u32 = 100_000;
const ROUNDS: u32 = 7;

const HANDLERS: [&str; 5] = [
    "return 204",
    "return { json = { score = 7 }, record = { score = 7 } }",
    "local x = tonumber(req.query.x) or 0 return { json = { score = x * 2 + 1 }, record = { score = x * 2 + 1 } }",
    "return req.headers['user-agent'] or 'none'",
    "local n = 0 for i = 1, 1000 do n += i end return 204",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("      ns  handler");
    for body in HANDLERS {
        println!("{:>8.0}  {body}", measure(body)?);
    }
    Ok(())
}

/// The best time of a call of a handler, in nanoseconds.
fn measure(body: &str) -> Result<f64, Box<dyn Error>> {
    let folder = TempDir::new()?;
    let file = folder.path().join("main.luau");
    std::fs::write(&file, format!("return function(req)\n{body}\nend"))?;
    // A busy machine is no reason to stop a measurement.
    let options = HostOptions { cpu_budget: Duration::from_secs(10), ..HostOptions::default() };
    let host = Host::new(options)?;
    let fields = RecordFields { names: vec!["score".to_owned()], whole: false };
    let handler = host.load(&file, folder.path(), &fields)?;
    let request = request()?;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        best = best.min(round(&handler, &request)?);
    }
    Ok(best)
}

fn round(handler: &Handler, request: &Rc<Request>) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    for _ in 0..CALLS {
        if let Step::Done(result) = handler.call(request.clone()).resume() {
            drop(black_box(result?));
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS))
}

fn request() -> Result<Rc<Request>, Box<dyn Error>> {
    let mut bytes = BytesMut::from("GET /score?x=20 HTTP/1.1\r\nHost: test\r\n\r\n");
    let head =
        HeadReader::default().read(&mut bytes, &Limits::default()).map_err(|error| format!("{error:?}"))?;
    Ok(Rc::new(Request {
        place: Place::default(),
        remote_addr: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        id: RequestId::Made(Uuid::from_u128(1)),
        time_us: 1_700_000_000_123_456,
        body: Bytes::new().into(),
        context: Context::default(),
        head: head.ok_or("the head is not whole")?,
    }))
}
