//! A real browser that a test drives: the DevTools protocol of Chromium over a pair of pipes.
//!
//! A message is JSON that ends with a zero byte. Chromium reads from descriptor 3 and writes to descriptor 4.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::arguments;
use crate::program::{PATIENCE, eventually};

/// Connects standard input and output of the shell with the descriptors of the protocol.
const ON_PIPES: &str = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// The domains whose events the test reads.
const DOMAINS: [&str; 5] = ["Page", "Runtime", "Log", "Network", "Audits"];

/// A size of the window, and whether the user prefers dark pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) is_dark: bool,
}

impl View {
    pub(crate) const DESKTOP: Self = Self { width: 1280, height: 900, is_dark: false };
    pub(crate) const PHONE: Self = Self { width: 360, height: 780, is_dark: true };
}

/// A browser with one page. Dropping this value ends the browser.
pub(crate) struct Page {
    child: Child,
    orders: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Page {
    /// Opens a page, and notes all of its events from its first request on.
    pub(crate) fn open(url: &str, view: View) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", ON_PIPES, "sh", "--remote-debugging-pipe", "--hide-scrollbars"])
            .args(arguments(profile.path()));
        command.arg("about:blank").env("HOME", profile.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            let messages = BufReader::new(answers).split(0).map_while(Result::ok);
            let messages = messages.map(|message| serde_json::from_slice(&message).unwrap());
            // The receiver is gone at the end of the test.
            let _ = messages.map(|message| sender.send(message)).take_while(Result::is_ok).count();
        });
        let mut page = Self {
            child,
            orders,
            messages,
            last_id: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = page.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = page.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        page.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in DOMAINS {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page.show_in(view);
        page.call("Page.navigate", &json!({ "url": url }));
        page
    }

    /// Changes the size of the window, and the preference of the user.
    pub(crate) fn show_in(&mut self, View { width, height, is_dark }: View) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Calls a method of the protocol, and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut order = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = session.as_str().into();
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let mut message = message
                .unwrap_or_else(|_| panic!("chromium: no answer to {method}: `make browser` installs it"));
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// Returns the value of an expression of JavaScript in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Returns the visible text of the element with this id.
    pub(crate) fn text(&mut self, id: &str) -> String {
        let text = self.value(&format!("document.getElementById({id:?})?.innerText ?? ''"));
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true. It may throw an exception before, because an element is not there.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let tried = format!("(() => {{ try {{ return {expression} }} catch {{ return false }} }})()");
        eventually(expression, || (self.value(&tried) == true).then_some(()));
    }

    /// Presses a key of the keyboard.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = if key == "Tab" { (9, "") } else { (13, "\r") };
        for kind in ["keyDown", "keyUp"] {
            let parameters = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &parameters);
        }
    }

    /// Types a text into the element that has the focus.
    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Returns a picture of the window as WebP.
    pub(crate) fn picture(&mut self, quality: u8) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "webp", "quality": quality }));
        STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }

    /// Returns the URLs of all requests of the page so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns everything that the browser complained about: the console, exceptions and the policy.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let kinds =
            ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Audits.issueAdded"];
        self.events.iter().filter(|event| kinds.iter().any(|kind| event["method"] == *kind)).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Time for one look at a page. A page asks its server each second.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
