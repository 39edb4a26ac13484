//! A real browser that opens a page. The page checks the example and reports the result to the server.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::example::example;
use crate::program::{App, Running, eventually_within};

/// Longest time for the start of the browser. Its first start reads many bytes from the disk.
const START_PATIENCE: Duration = Duration::from_mins(2);

/// The route to which the page reports.
const SAID: &str = r#"
[[route]]
path = "/said"
collect = true
stream = "said"

[stream.said]
columns = [{ name = "said", type = "json", from = "record.said" }]
"#;

/// The first part of the page's script: functions that wait, and a call of `check`, which the page defines.
/// The result of `check` is reported.
const PRELUDE: &str = r#"
const told = said => fetch("/said", {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ said }),
})
const event = (target, name) => new Promise((resolve, reject) => {
  target.addEventListener(name, resolve, { once: true })
  target.addEventListener("error", () => reject(`no ${name}: ${target.error?.message}`), { once: true })
})
const until = async look => {
  while (!await look()) await new Promise(resolve => setTimeout(resolve, 5))
  return look()
}
// Shows a page of the example in a frame of its own.
const open = async path => {
  const frame = document.createElement("iframe")
  frame.src = path
  document.body.append(frame)
  await event(frame, "load")
  return frame
}
addEventListener("load", () => check().catch(error => ({ error: `${error}` })).then(told))
"#;

/// Makes an example with a page that checks it. `check` is the body of an async function.
pub(crate) fn checked_example(name: &str, config: impl FnOnce(&str) -> String, check: &str) -> App {
    let app = example(name, |text| config(text) + SAID);
    app.write(
        "public/check.html",
        "<!doctype html><title>Check</title><body></body><script src=\"/check.js\"></script>",
    );
    app.write("public/check.js", &format!("{PRELUDE}\nconst check = async () => {{{check}}}\n"));
    app
}

/// Name of another site. The browser reaches the server under test by it.
const OTHER_SITE: &str = "elsewhere.test";

/// Opens the page that checks the example, and waits for its report.
pub(crate) fn said(app: &App, server: &Running) -> (Browser, Value) {
    said_at(&format!("http://{}", server.address()), &[], app)
}

/// Opens the page like [`said`], but as a page of another site.
pub(crate) fn said_elsewhere(app: &App, server: &Running) -> (Browser, Value) {
    said_at(&format!("http://{OTHER_SITE}:{}", server.address().port()), &[], app)
}

/// Opens the page like [`said`], but over HTTPS. `hash` is the base64 of the SHA-256 of the server's key.
pub(crate) fn said_over_https(app: &App, server: &Running, hash: &str) -> (Browser, Value) {
    let options = [format!("--ignore-certificate-errors-spki-list={hash}")];
    said_at(&format!("https://{}", server.address()), &options, app)
}

fn said_at(origin: &str, options: &[String], app: &App) -> (Browser, Value) {
    let browser = Browser::open(&format!("{origin}/check.html"), options);
    let said = eventually_within(START_PATIENCE, "the browser says what it found", || {
        app.has_table("said").then(|| app.query::<String>("SELECT said FROM said").pop()).flatten()
    });
    (browser, serde_json::from_str(&said).unwrap())
}

/// Returns the arguments of each browser: no window, and this folder for its files.
pub(crate) fn arguments(profile: &Path) -> Vec<String> {
    let fixed = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio", "--no-first-run"];
    // A browser sends many requests that no page caused. With these options the browser can connect only to
    // the server under test.
    let silent = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
    let known =
        format!("--host-resolver-rules=MAP {OTHER_SITE} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");
    let folder = format!("--user-data-dir={}", profile.display());
    // Root cannot use the sandbox. The sandbox is not needed, because the pages are part of the tests.
    let others = [known, folder, "--no-sandbox".to_owned()];
    fixed.into_iter().chain(silent).map(str::to_owned).chain(others).collect()
}

/// Chromium without a window. Dropping this value ends the browser.
pub(crate) struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    fn open(url: &str, options: &[String]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromium");
        command
            .args(arguments(profile.path()))
            .arg("--remote-debugging-port=0")
            .args(options)
            .arg(url)
            .env("HOME", profile.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("chromium: {error}: `make tools` installs it"));
        Self { child, _profile: profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
