//! Prints the cost of a call, and of the functions that a handler calls. The program asserts nothing. `cargo
//! run --release -p tollgate-script --example call_speed` runs it. `bench/study.py calls` also counts
//! instructions with callgrind.

#[path = "../request/mod.rs"]
mod request;
mod work;

use std::error::Error;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_script::{Host, HostOptions, LoadedScript, RecordFields, Request, Step};

use crate::request::request;
use crate::work::{FUNCTIONS, HANDLERS, REPEATED, repeated};

const HEAD: &str =
    "GET /score?x=20 HTTP/1.1\r\nHost: test\r\nUser-Agent: bench\r\nCookie: a=b; session=c\r\n\r\n";
const CONTENT: &str = "{\"kind\":\"click\",\"amount\":3,\"tags\":[\"a\",\"b\"]}";
const ROUNDS: u32 = 7;
const HANDLER_CALLS: u32 = 100_000;
const FUNCTION_CALLS: u32 = 2_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Without arguments, prints the time of all bodies.
///
/// `calls N BODY` makes N calls of a handler, for an instruction counter. `list handlers` and `list
/// functions` print the bodies whose instructions are to be counted. The first printed body makes no function
/// call, so that its cost can be subtracted.
fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print_times(),
        ["list", "handlers"] => print_bodies(HANDLERS.map(|body| (body, body.to_owned()))),
        ["list", "functions"] => {
            print_bodies(FUNCTIONS.map(|statement| (statement, repeated(statement, REPEATED))))
        }
        ["calls", calls, body] => Script::new(body)?.call(calls.parse()?),
        _ => Err("call_speed [calls N BODY | list handlers | list functions]".into()),
    }
}

fn print_times() -> Result<()> {
    println!("      ns  handler");
    for body in HANDLERS {
        println!("{:>8.0}  {body}", Script::new(body)?.best_ns(HANDLER_CALLS)?);
    }
    println!("\n      ns  function");
    let nothing = Script::new(&repeated("", REPEATED))?.best_ns(FUNCTION_CALLS)?;
    for statement in FUNCTIONS {
        let all = Script::new(&repeated(statement, REPEATED))?.best_ns(FUNCTION_CALLS)?;
        println!("{:>8.0}  {statement}", (all - nothing) / f64::from(REPEATED));
    }
    Ok(())
}

/// Prints one line for each body: a name, a tab, and the body with its line ends as `\n`.
fn print_bodies<const COUNT: usize>(bodies: [(&str, String); COUNT]) -> Result<()> {
    println!("\t{}", repeated("", REPEATED).replace('\n', "\\n"));
    for (name, body) in bodies {
        println!("{name}\t{}", body.replace('\n', "\\n"));
    }
    Ok(())
}

struct Script {
    handler: LoadedScript,
    request: Rc<Request>,
    _host: Host,
    _folder: TempDir,
}

impl Script {
    fn new(body: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let file = folder.path().join("main.luau");
        std::fs::write(&file, format!("return function(req)\n{}\nend", body.replace("\\n", "\n")))?;
        // The budget is long, so that a busy machine does not end a measurement.
        let options = HostOptions { cpu_budget: Duration::from_secs(10), ..HostOptions::default() };
        let host = Host::new(options)?;
        let fields = RecordFields { names: vec!["score".to_owned()], whole: false };
        let handler = host.load(&file, folder.path(), &fields)?;
        Ok(Self { handler, request: request(HEAD, CONTENT)?, _host: host, _folder: folder })
    }

    /// Returns the shortest mean time of a call in nanoseconds.
    fn best_ns(&self, calls: u32) -> Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            self.call(calls)?;
            best = best.min(began.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
        }
        Ok(best)
    }

    fn call(&self, calls: u32) -> Result<()> {
        for _ in 0..calls {
            let mut call = self.handler.call(self.request.clone());
            let result = loop {
                // After a slice the call is resumed at once, because no other call runs.
                if let Step::Done(result) = call.resume() {
                    break result;
                }
            };
            drop(black_box(result?));
        }
        Ok(())
    }
}
