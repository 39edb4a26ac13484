//! Long XML documents in constant memory: read by a script element by element, and sent to a backend that
//! their first bytes choose. `make xml-streams` sends 1 GiB.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{App, Running};
use crate::uploads::peak_kib;

const MIB: usize = 1 << 20;
/// How much the memory of the process may grow from a short document to a long one.
const GROWTH_KIB_MAX: u64 = 4 << 10;
/// Number of orders in a block that is sent at once.
const BLOCK_ORDERS: usize = 1024;
const BEGIN: &str = "<orders xmlns='urn:orders' region='eu'>";
const END: &str = "</orders>";

fn long_mib() -> usize {
    env::var("TOLLGATE_XML_MIB").map_or(24, |text| text.parse().unwrap())
}

/// Returns orders of about 1 KiB each.
fn block() -> String {
    let line = "<line article='4711' count='3'>Tea &amp; co, first quality</line>";
    format!("<order id='7'><customer>ACME</customer>{}</order>\n", line.repeat(14)).repeat(BLOCK_ORDERS)
}

/// Sends a document of about this many MiB. Returns the number of its orders, its length and the answer.
fn send(server: &Running, mib: usize) -> (usize, usize, String) {
    let block = block();
    let blocks = (mib * MIB).div_ceil(block.len());
    let length = BEGIN.len() + blocks * block.len() + END.len();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    let fields = "Host: a\r\nConnection: close\r\nContent-Type: application/xml";
    write!(stream, "POST /orders HTTP/1.1\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{BEGIN}").unwrap();
    (0..blocks).for_each(|_| stream.write_all(block.as_bytes()).unwrap());
    stream.write_all(END.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (blocks * BLOCK_ORDERS, length, answer)
}

/// Sends a short document and a long one. `content` makes the expected content of the answer from the
/// number of orders and the length of the document.
fn check(server: &Running, content: impl Fn(usize, usize) -> String) {
    let mut peaks = [0, 0];
    for (mib, peak) in [8, long_mib()].into_iter().zip(&mut peaks) {
        let begun = Instant::now();
        let (orders, length, answer) = send(server, mib);
        assert!(answer.ends_with(&format!("\r\n\r\n{}", content(orders, length))), "{mib} MiB: {answer}");
        *peak = peak_kib(server);
        println!("{mib} MiB: {:?}, at most {} KiB of memory", begun.elapsed(), *peak);
    }
    let grown = peaks[1] - peaks[0];
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB");
}

#[test]
fn a_script_reads_the_elements_of_a_long_document_in_constant_memory() {
    let config = "spool_bytes_max = \"2GiB\"\nbody_timeout = \"20m\"\n
        [script]\ncpu_budget = \"10m\"\nwall_budget = \"20m\"\n
        [[route]]\npath = \"/orders\"\nscript = \"orders.luau\"\nbody_bytes_max = \"2GiB\"\n";
    let script = "return function(req)
        local count, lines = 0, 0
        local options = { namespaces = { o = 'urn:orders' } }
        for order in req:xml_each('/o:orders/o:order', options) do
            count += 1
            lines += #tollgate.xml.children(order, 'line')
        end
        return `{count} {lines}`
    end";
    let app = App::new(config, &[("orders.luau", script)]);
    check(&app.start(), |orders, _| format!("{orders} {}", orders * 14));
}

/// Starts a backend that answers each request with the length of its content.
fn counting_backend() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer_with_length(BufReader::new(stream.unwrap()));
        }
    });
    address
}

fn answer_with_length(mut stream: BufReader<TcpStream>) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let came = std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).unwrap();
    let text = came.to_string();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", text.len());
    stream.get_mut().write_all((head + &text).as_bytes()).unwrap();
}

#[test]
fn a_long_document_is_sent_to_the_backend_of_its_first_bytes_in_constant_memory() {
    let address = counting_backend();
    let config = format!(
        "spool_bytes_max = \"2GiB\"\nbody_timeout = \"20m\"\n
        [backend.eu]\nurls = [\"http://{address}\"]\ntimeout = \"20m\"\n
        [[route]]\npath = \"/orders\"\nbody_bytes_max = \"2GiB\"\nnamespaces = {{ o = \"urn:orders\" }}
        when = [{{ xml = \"/o:orders[@region = 'eu']/o:order/o:customer = 'ACME'\", proxy = \"eu\" }}]
        otherwise = {{ status = 422 }}\n"
    );
    let app = App::new(&config, &[]);
    check(&app.start(), |_, length| length.to_string());
}
