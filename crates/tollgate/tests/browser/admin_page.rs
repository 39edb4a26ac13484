//! The admin page in a real browser, in the states of a real server.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use crate::client::Client;
use crate::cluster::Cluster;
use crate::devtools::{LOOK, Page, View};
use crate::program::{App, BINARY, eventually, is_quick_once};
use crate::replay::{status_at, status_of};

const ROUTES: &str = "[[route]]\npath = \"/fixed\"\nreply = { body = \"fixed\" }\n\
                      [[route]]\npath = \"/a\"\ncollect = true\nstream = \"a\"\n\
                      [stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n";
const TOKEN: &str = "0123456789abcdef-token";

/// Returns an app whose admin listener has a TCP address, and this address.
fn app_with(config: &str, admin: &str) -> (App, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let app = App::new(&format!("[admin]\nlisten = \"{address}\"\n{admin}\n{config}"), &[]);
    (app, address)
}

fn open(address: SocketAddr) -> Page {
    Page::open(&format!("http://{address}/"), View::DESKTOP)
}

/// Waits until the page shows this state, in which the box `box` has the same tone.
fn wait_for_state(page: &mut Page, tone: &str, place: &str) {
    page.wait_for(&format!(
        "document.getElementById('verdict').className === '{tone}' && \
         document.getElementById('box-{place}').className === 'box {tone}'"
    ));
}

/// Checks that the browser asked only the page's server, and complained about nothing.
fn check_quiet(page: &Page, address: SocketAddr) {
    let own = format!("http://{address}/");
    let is_own = |url: &String| url.starts_with(&own) || url.starts_with("data:image/svg+xml,");
    let requests = page.requests();
    assert!(requests.len() > 1 && requests.iter().all(is_own), "{requests:?}");
    let complaints = page.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

fn post(address: SocketAddr) -> u16 {
    Client::connect(address).post("/a", "[{\"n\":1}]").unwrap().status
}

/// Checks that the page fits this window: no text is cut, and nothing scrolls to the side.
fn check_fits(page: &mut Page, view: View) {
    page.show_in(view);
    let width = page.value("document.documentElement.scrollWidth");
    assert!(width.as_u64().unwrap() <= u64::from(view.width), "{width} of {view:?}");
}

/// Ends a thread, also after a panic of the test.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_page_of_an_idle_server_says_so_and_works_by_keyboard_and_at_360_pixels() {
    let (app, address) = app_with(ROUTES, "");
    let server = app.start();
    let mut page = open(address);
    wait_for_state(&mut page, "good", "log");
    page.wait_for("document.getElementById('sentence').textContent.startsWith('All well. No request')");
    assert_eq!(page.value("document.title"), "✓ All well – Tollgate");
    // No state is shown by its colour alone: each of the eight boxes has a sign too.
    let signs = page.value("[...document.querySelectorAll('.box i')].map(sign => sign.textContent).join('')");
    assert_eq!(signs, "✓✓✓✓–✓✓✓");
    assert!(page.text("clock").contains("UTC"), "{}", page.text("clock"));
    page.press("Tab");
    assert_eq!(page.value("document.activeElement.id"), "box-listen");
    let pressed =
        "[...document.querySelectorAll('#ranges button')].map(button => button.getAttribute('aria-pressed'))";
    page.value("document.querySelectorAll('#ranges button')[2].focus()");
    page.press("Enter");
    assert_eq!(page.value(pressed), serde_json::json!(["false", "false", "true"]));
    check_fits(&mut page, View::PHONE);
    let dark = page.value("getComputedStyle(document.body).backgroundColor");
    check_fits(&mut page, View::DESKTOP);
    assert_ne!(page.value("getComputedStyle(document.body).backgroundColor"), dark);
    check_quiet(&page, address);
    server.stop();
}

#[test]
fn the_page_of_a_busy_server_counts_what_its_clients_sent() {
    let (app, address) = app_with(ROUTES, "");
    let server = app.start();
    let (public, is_over) = (server.address(), AtomicBool::new(false));
    let mut page = open(address);
    let sent = thread::scope(|scope| {
        let over = SetAtEnd(&is_over);
        let send = || {
            let mut client = Client::connect(public);
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert!(client.post("/a", "[{\"n\":1}]").unwrap().is_success());
                sent += 1;
            }
            sent
        };
        let client = scope.spawn(send);
        page.wait_for(
            "document.getElementById('sentence').innerText.includes(' requests per second, and each')",
        );
        page.wait_for("document.querySelectorAll('.arrow.flows').length === 6");
        page.wait_for("document.querySelector('.plot path.c1').getAttribute('d').length > 0");
        drop(over);
        client.join().unwrap()
    });
    let shown = "document.querySelector('#clients tbody').rows[1].cells[2].textContent.replace(/\\D/g, '')";
    page.wait_for(&format!("{shown} === '{sent}'"));
    let rows = "document.querySelector('#sinks tbody').rows[0].cells[4].textContent.replace(/\\D/g, '')";
    page.wait_for(&format!("{rows} === '{sent}'"));
    wait_for_state(&mut page, "good", "sink");
    check_quiet(&page, address);
    server.stop();
}

#[test]
fn the_page_shows_a_failed_log_within_two_seconds_and_what_to_do() {
    is_quick_once("the page shows a failed log", LOOK, || {
        let (app, address) = app_with(ROUTES, "");
        let server = app.begin_with_fault("fdatasync", "error=EIO:when=2").serving().unwrap();
        let mut page = open(address);
        assert_eq!(post(server.address()), 200);
        wait_for_state(&mut page, "good", "log");
        assert_eq!(post(server.address()), 503);
        let begun = Instant::now();
        wait_for_state(&mut page, "bad", "log");
        let took = begun.elapsed();
        println!("a failed log is on the page after {:.2} s", took.as_secs_f64());
        let sentence = page.text("sentence");
        assert!(sentence.starts_with("Not ready: ") && sentence.contains("Input/output error"), "{sentence}");
        assert_eq!(page.text("remedy"), "What to do: check the disk (dmesg), then restart the server.");
        assert_eq!(page.value("document.querySelector('#box-log em').textContent"), "log failed");
        page.wait_for("document.querySelector('#lines tbody').textContent.includes('Input/output error')");
        check_quiet(&page, address);
        server.kill();
        took
    });
}

#[test]
fn the_page_shows_a_database_that_went_away_and_that_it_is_back() {
    let cluster = Cluster::start("");
    let url = cluster.url(&cluster.database());
    let (app, address) = app_with(&format!("{ROUTES}[sink.main]\npostgres = \"{url}\"\n"), "");
    let server = app.start();
    let mut page = open(address);
    assert_eq!(post(server.address()), 200);
    page.wait_for("document.querySelector('#sinks tbody')?.rows[0]?.cells[4].textContent === '1'");
    wait_for_state(&mut page, "good", "sink");
    cluster.stop_immediately();
    assert_eq!(post(server.address()), 200);
    wait_for_state(&mut page, "warn", "sink");
    let sentence = page.text("sentence");
    assert!(sentence.starts_with("Warning: sink main takes no rows"), "{sentence}");
    assert!(page.text("remedy").contains("records wait in the log and are loaded later"));
    assert!(page.text("sinks").contains("retrying"), "{}", page.text("sinks"));
    page.wait_for("document.querySelector('#box-load strong').textContent !== '0 s'");
    cluster.boot();
    wait_for_state(&mut page, "good", "sink");
    check_quiet(&page, address);
    server.stop();
}

#[test]
fn the_page_of_a_server_with_500_routes_shows_20_and_says_how_many_there_are() {
    let route = |number| format!("[[route]]\npath = \"/r{number}\"\nreply = {{ body = \"a\" }}\n");
    let (app, address) = app_with(&(0..500).map(route).collect::<String>(), "");
    let server = app.start();
    let mut page = open(address);
    page.wait_for("document.querySelector('#routes h2')?.textContent === 'Routes (20 of 500)'");
    assert_eq!(page.value("document.querySelector('#routes tbody').rows.length"), 20);
    // The busiest route comes first.
    eventually("the page shows the route first", || {
        assert!(server.connect().get("/r321").unwrap().is_success());
        let first = "document.querySelector('#routes tbody').rows[0].cells[0].textContent";
        (page.value(first) == "/r321").then_some(())
    });
    check_fits(&mut page, View::PHONE);
    check_quiet(&page, address);
    server.stop();
}

/// Prints the processor time that an open page costs its server. No test asserts a speed.
#[test]
fn a_page_that_is_open_costs_its_server_little() {
    let route = |number| format!("[[route]]\npath = \"/r{number}\"\nreply = {{ body = \"a\" }}\n");
    let (app, address) = app_with(&(0..100).map(route).collect::<String>(), "");
    let server = app.start();
    let used = || {
        let status = status_at(address);
        (status["uptime_seconds"].as_f64().unwrap(), status["process"]["cpu_seconds"].as_f64().unwrap())
    };
    let polls = |page: &Page| page.requests().iter().filter(|url| url.ends_with("/status")).count();
    let mut page = open(address);
    let (begun, before) = used();
    while polls(&page) < 10 {
        page.value("new Promise(resolve => setTimeout(resolve, 50))");
    }
    let (ended, after) = used();
    let share = (after - before) / (ended - begun);
    page.value("Object.defineProperty(document, 'hidden', { get: () => true })");
    page.value("document.dispatchEvent(new Event('visibilitychange'))");
    let asked = polls(&page);
    page.value("new Promise(resolve => setTimeout(resolve, 4500))");
    // One question may have been on its way.
    assert!(polls(&page) <= asked + 1, "a hidden page asks nothing");
    println!("an open page with 100 routes costs {:.2} % of a core", share * 100.0);
    check_quiet(&page, address);
    server.stop();
}

#[test]
fn the_page_says_for_how_long_the_server_has_not_answered_and_finds_the_next_one() {
    let (app, address) = app_with(ROUTES, "");
    let server = app.start();
    let mut page = open(address);
    wait_for_state(&mut page, "good", "log");
    server.kill();
    page.wait_for("document.getElementById('sentence').textContent === 'The server does not answer.'");
    page.wait_for(
        "/^The last answer came [0-9]+ seconds ago.$/.test(document.getElementById('stale').textContent)",
    );
    assert_eq!(page.value("document.title"), "? No answer – Tollgate");
    let server = app.start();
    wait_for_state(&mut page, "good", "log");
    page.wait_for("document.getElementById('stale').textContent === ''");
    server.stop();
}

#[test]
fn the_page_asks_once_for_a_token_and_keeps_it_in_memory_only() {
    let (app, address) = app_with(ROUTES, "token = \"${ADMIN_TOKEN}\"");
    let mut command = Command::new(BINARY);
    command.env("ADMIN_TOKEN", TOKEN);
    let server = app.begin_as(command).serving().unwrap();
    let mut page = open(address);
    page.wait_for("!document.getElementById('ask').hidden && document.activeElement.id === 'token'");
    page.write("wrong");
    page.press("Enter");
    page.wait_for("document.getElementById('ask-why').textContent === 'The server refused this token.'");
    page.write(TOKEN);
    page.press("Enter");
    wait_for_state(&mut page, "good", "log");
    assert_eq!(page.value("document.getElementById('ask').hidden"), true);
    let kept = "[localStorage.length, sessionStorage.length, document.cookie, \
                document.getElementById('token').value, location.href.includes('token')]";
    assert_eq!(page.value(kept), serde_json::json!([0, 0, "", "", false]));
    assert!(page.requests().iter().all(|url| !url.contains(TOKEN)));
    server.stop();
}

#[test]
fn the_address_of_status_web_opens_the_page_and_ends_with_its_command() {
    let app = App::new(ROUTES, &[]);
    let server = app.start();
    let command = app.follow(&["status", "--web"]);
    let url = command.line();
    let address = url.split(['/', '#']).nth(2).unwrap().parse().unwrap();
    let mut page = Page::open(&url, View::DESKTOP);
    wait_for_state(&mut page, "good", "log");
    let process = status_of(&app)["process_id"].to_string();
    assert!(page.text("process").contains(&process));
    // A box leads to its table. The token stays in the address, so a reload works too.
    page.value("document.getElementById('box-log').focus()");
    page.press("Enter");
    assert_eq!(page.value("document.activeElement.id"), "log");
    assert_eq!(page.value("location.href"), url.as_str());
    page.call("Page.reload", &serde_json::json!({}));
    page.wait_for("document.activeElement.id === '' && document.getElementById('sentence').innerText !== ''");
    wait_for_state(&mut page, "good", "log");
    check_quiet(&page, address);
    command.end(Signal::INT);
    page.wait_for("document.getElementById('sentence').textContent === 'The server does not answer.'");
    let mut other = Page::open(&format!("http://{address}/"), View::DESKTOP);
    other.wait_for("location.protocol === 'chrome-error:'");
    server.stop();
}
