//! Measures how fast a script writes a document of 4 KiB: as tables, by hand with `tollgate.xml.escape`, and
//! by a template. It also measures how fast a script reads it. Prints microseconds of one document, as the
//! best of some rounds.

use std::error::Error;
use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tollgate_http::route::MatchedPath;
use tollgate_http::{HeadReader, Limits};
use tollgate_script::{Context, Host, HostOptions, RecordFields, Request, RequestId, Step, TraceRule};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("xml-writing-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let measured = measure_all(&folder);
    fs::remove_dir_all(&folder)?;
    measured
}

fn measure_all(folder: &std::path::Path) -> Result<()> {
    for (name, run) in VARIANTS {
        let options = HostOptions { cpu_budget: Duration::from_secs(60), ..HostOptions::default() };
        let host = Host::new(options)?;
        let path = folder.join("main.luau");
        fs::write(&path, format!("{METHODS}\n{run}\n{HANDLER}"))?;
        let handler = host.load(&path, folder, &RecordFields::default())?;
        let (mut best, mut bytes) = (Duration::MAX, 0);
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            let mut call = handler.call(request()?);
            let outcome = loop {
                if let Step::Done(result) = call.resume() {
                    break result?;
                }
            };
            best = best.min(begin.elapsed());
            bytes = outcome.body.len();
        }
        let microseconds = best.as_secs_f64() * 1e6 / f64::from(DOCUMENTS);
        println!("{name:12} {microseconds:7.2} us, {bytes} bytes");
    }
    Ok(())
}

fn request() -> Result<Rc<Request>> {
    let mut bytes = BytesMut::from("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = HeadReader::default().read(&mut bytes, &Limits::default())?.ok_or("an incomplete head")?;
    Ok(Rc::new(Request {
        place: MatchedPath { decoded: None, names: None, spans: Vec::new(), path_info_bytes: 0 },
        remote_addr: None,
        tls: None,
        id: RequestId::Made(uuid::Uuid::from_u128(1)),
        time_us: 0,
        caller: None,
        trace_rule: TraceRule::TakeOrMake,
        is_sampled: false,
        body: Bytes::new().into(),
        context: Context::default(),
        choice: std::cell::RefCell::default(),
        head,
    }))
}

const ROUNDS: usize = 15;
const DOCUMENTS: u32 = 200;

/// The values of a document with 24 methods.
const METHODS: &str = r#"
local methods = {}
for number = 1, 24 do
  methods[number] = { id = number, name = `method{number}`, returns = "string",
    text = "Returns the value of the property & its <default>, if there is one, for each caller of it." }
end
"#;

const HANDLER: &str = "
return function()
  local document
  for _ = 1, 200 do document = run() end
  return { body = document }
end
";

const VARIANTS: [(&str, &str); 5] = [
    (
        "tables",
        r#"
local function run()
  local list = {}
  for index, method in methods do
    list[index] = { tag = "method", attr = { id = method.id, name = method.name },
      { tag = "returns", method.returns }, { tag = "text", method.text } }
  end
  return tollgate.xml.encode({ tag = "methods", list })
end"#,
    ),
    (
        "by hand",
        r#"
local escape = tollgate.xml.escape
local function run()
  local parts = {}
  for index, method in methods do
    parts[index] = `<method id="{method.id}" name="{escape(method.name)}"><returns>{
      escape(method.returns)}</returns><text>{escape(method.text)}</text></method>`
  end
  return "<methods>" .. table.concat(parts) .. "</methods>"
end"#,
    ),
    (
        "template",
        r#"
local write = tollgate.xml.template('<methods>{each methods}<method id="{id}" name="{name}">'
  .. '<returns>{returns}</returns><text>{text}</text></method>{end}</methods>')
local function run()
  return write({ methods = methods })
end"#,
    ),
    (
        "decode",
        r#"
local write = tollgate.xml.template('<methods>{each methods}<method id="{id}" name="{name}">'
  .. '<returns>{returns}</returns><text>{text}</text></method>{end}</methods>')
local text = write({ methods = methods })
local function run()
  return assert(tollgate.xml.decode(text)).tag
end"#,
    ),
    (
        "values",
        r#"
local write = tollgate.xml.template('<methods>{each methods}<method id="{id}" name="{name}">'
  .. '<returns>{returns}</returns><text>{text}</text></method>{end}</methods>')
local text = write({ methods = methods })
local read = tollgate.xml.values({ first = "/methods/method/@name", text = "//text",
  last = "/methods/method[@id='24']/returns" })
local function run()
  return assert(read(text)).last
end"#,
    ),
];
