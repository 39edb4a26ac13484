//! The memory of calls that wait; prints figures, proves nothing.
//! `cargo run --release -p tollgate-script --example waiting`

use std::error::Error;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tempfile::TempDir;
use tollgate_http::{HeadReader, Limits};
use tollgate_script::{Context, Host, HostOptions, Place, RecordFields, Request, RequestId, TraceRule};
use uuid::Uuid;

const CALLS: usize = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = TempDir::new()?;
    let file = folder.path().join("main.luau");
    std::fs::write(&file, "return function(req)\nlocal x = req.query.x\ntollgate.sleep(5)\nreturn x\nend")?;
    let host = Host::new(HostOptions::default())?;
    let handler = host.load(&file, folder.path(), &RecordFields::default())?;
    let request = request()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let before = resident_bytes()?;
    let began = Instant::now();
    let mut calls: Vec<_> = (0..CALLS).map(|_| handler.call(request.clone())).collect();
    calls.iter_mut().for_each(|call| drop(call.resume()));
    // The first poll begins the timers.
    runtime.block_on(poll_fn(|context| {
        calls.iter_mut().for_each(|call| _ = call.poll_wait(context));
        Poll::Ready(())
    }));
    let took = began.elapsed();
    let bytes = resident_bytes()?.saturating_sub(before);
    println!(
        "{CALLS} calls wait: {} bytes each, {} ns to begin one",
        bytes / CALLS,
        took.as_nanos() / CALLS as u128
    );
    Ok(())
}

fn resident_bytes() -> Result<usize, Box<dyn Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm.split(' ').nth(1).ok_or("no resident pages")?.parse()?;
    Ok(pages * 4096)
}

fn request() -> Result<Rc<Request>, Box<dyn Error>> {
    let mut bytes = BytesMut::from("GET /?x=20 HTTP/1.1\r\nHost: test\r\n\r\n");
    let head =
        HeadReader::default().read(&mut bytes, &Limits::default()).map_err(|error| format!("{error:?}"))?;
    Ok(Rc::new(Request {
        place: Place::default(),
        remote_addr: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        id: RequestId::Made(Uuid::from_u128(1)),
        time_us: 1_700_000_000_123_456,
        trace_rule: TraceRule::TakeOrMake,
        body: Bytes::new().into(),
        context: Context::default(),
        head: head.ok_or("the head is not whole")?,
    }))
}
