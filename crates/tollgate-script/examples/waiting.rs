//! Measures the memory of waiting calls. The program prints figures and asserts nothing. `cargo run --release
//! -p tollgate-script --example waiting`

mod request;

use std::error::Error;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use tempfile::TempDir;
use tollgate_script::{Host, HostOptions, RecordFields};

use crate::request::request;

const CALLS: usize = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = TempDir::new()?;
    let file = folder.path().join("main.luau");
    std::fs::write(&file, "return function(req)\nlocal x = req.query.x\ntollgate.sleep(5)\nreturn x\nend")?;
    let host = Host::new(HostOptions::default())?;
    let handler = host.load(&file, folder.path(), &RecordFields::default())?;
    let request = request("GET /?x=20 HTTP/1.1\r\nHost: test\r\n\r\n", "")?;
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
