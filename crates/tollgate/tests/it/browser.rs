//! The example site in a real browser: its style, its image and its script, a range that a script asks for, and sound that is
//! heard from another place.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{App, eventually_within};

/// A browser that was never started reads much from a disk.
const START_PATIENCE: Duration = Duration::from_mins(2);

/// What the page in the browser finds out, and tells the server at its end.
const CHECK: &str = r#"
const told = said => fetch("/said", {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ said }),
})
const event = (target, name) => new Promise((resolve, reject) => {
  target.addEventListener(name, resolve, { once: true })
  target.addEventListener("error", () => reject(`no ${name}: ${target.error?.message}`), { once: true })
})
const until = async look => {
  while (!look()) await new Promise(requestAnimationFrame)
  return look()
}
const check = async () => {
  const frame = document.querySelector("iframe")
  const page = frame.contentDocument
  const width = frame.contentWindow.getComputedStyle(page.body).maxWidth
  const image = page.querySelector("img").naturalWidth
  const score = await until(() => page.querySelector("output").value.match(/^[0-9]+$/)?.[0])
  const part = await fetch("/tone.wav", { headers: { Range: "bytes=8-11" } })
  const again = await fetch("/style.css", { cache: "no-cache" })
  const sound = new Audio("/tone.wav")
  sound.preload = "metadata"
  await event(sound, "loadedmetadata")
  sound.currentTime = 200
  await event(sound, "seeked")
  return {
    width, image, score, again: again.status, part: `${part.status} ${await part.text()}`,
    length: sound.duration, place: sound.currentTime,
  }
}
addEventListener("load", () => check().catch(error => ({ error: `${error}` })).then(told))
"#;

/// So much of it that no browser reads all before somebody wants to hear its end.
const SOUND_SECONDS: u32 = 240;
const SOUND_RATE: u32 = 44_100;

/// Silence as WAV: PCM, one channel, 16 bits.
fn sound() -> Vec<u8> {
    let bytes = SOUND_SECONDS * SOUND_RATE * 2;
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((bytes + 36).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(SOUND_RATE.to_le_bytes());
    wav.extend((SOUND_RATE * 2).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend(bytes.to_le_bytes());
    wav.resize(wav.len() + bytes as usize, 0);
    wav
}

/// Chromium without a window; it ends when dropped.
struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    fn open(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromium");
        command.args([
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--mute-audio",
            "--no-first-run",
        ]);
        // A browser of today asks for much by itself; here it finds nobody but the server.
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");
        // Its sandbox cannot be had by root; the pages are our own.
        command.args(["--no-sandbox", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(url).env("HOME", profile.path()).stdout(Stdio::null()).stderr(Stdio::null());
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

/// The example, with what is asked of its files recorded, and a page that looks at it.
fn example() -> App {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/site");
    let config = fs::read_to_string(folder.join("tollgate.toml")).unwrap();
    let recorded = config.replace("path = \"/*\"\n", "path = \"/*\"\nstream = \"files\"\n");
    assert_ne!(config, recorded);
    let streams = r#"
[[route]]
path = "/said"
collect = true
stream = "said"

[stream.said]
columns = [{ name = "said", type = "json", from = "record.said" }]

[stream.files]
columns = [
  { name = "path", type = "text", from = "request.path" },
  { name = "range", type = "text", from = "request.header.range" },
  { name = "status", type = "int", from = "reply.status" },
]
"#;
    let script = fs::read_to_string(folder.join("score.luau")).unwrap();
    let page =
        "<!doctype html><title>Check</title><iframe src=\"/\"></iframe><script src=\"/check.js\"></script>";
    let files = [("score.luau", script.as_str()), ("public/check.html", page), ("public/check.js", CHECK)];
    let app = App::new(&format!("{recorded}{streams}"), &files);
    for file in fs::read_dir(folder.join("public")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), app.path().join("public").join(file.file_name())).unwrap();
    }
    fs::write(app.path().join("public/tone.wav"), sound()).unwrap();
    app
}

#[test]
fn a_browser_shows_the_example_and_hears_sound_from_another_place() {
    let app = example();
    let server = app.start();
    let browser = Browser::open(&format!("http://{}/check", server.address()));
    let said = eventually_within(START_PATIENCE, "the browser says what it found", || {
        app.has_table("said").then(|| app.query::<String>("SELECT said FROM said").pop()).flatten()
    });
    let said: Value = serde_json::from_str(&said).unwrap();
    let expected = json!({
        "width": "640px", "image": 64, "score": "41", "again": 200, "part": "206 WAVE",
        "length": SOUND_SECONDS, "place": 200,
    });
    assert_eq!(said, expected);
    drop(browser);
    assert!(server.stop().0.success());
    let count = |of: &str| app.query::<i64>(&format!("SELECT count(*) FROM files WHERE {of}"))[0];
    // It sought by asking for what lies there, and asked again for the style only whether it changed.
    let far = "path = '/tone.wav' AND status = 206 AND CAST(substr(range, 7) AS INTEGER) > 10000000";
    assert!(count(far) > 0, "{:?}", app.query::<String>("SELECT range FROM files WHERE path = '/tone.wav'"));
    assert_eq!(count("path = '/style.css' AND status = 304"), 1);
    assert_eq!(count("status >= 400 AND path <> '/favicon.ico'"), 0);
}
