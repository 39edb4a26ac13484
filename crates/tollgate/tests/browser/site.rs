//! The example site in a real browser: its style, image and script, a range that a script requests, and sound
//! and film. Sound and film are also played from a later time.

use std::fs;

use serde_json::json;

use crate::chromium::{checked_example, said};
use crate::film::{self, film};

/// The check that the page in the browser runs.
const CHECK: &str = r#"
  const frame = await open("/")
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
"#;

/// Seconds of sound: more than a browser reads before a user seeks to the end.
const SOUND_SECONDS: u32 = 240;
const SOUND_RATE: u32 = 44_100;

/// Returns silence as WAV: PCM, one channel, 16 bits.
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

/// Adds a stream that records the requests for files.
fn with_requests(config: &str) -> String {
    let recorded = config.replace("path = \"/*\"\n", "path = \"/*\"\nstream = \"files\"\n");
    assert_ne!(config, recorded);
    let stream = r#"
[stream.files]
columns = [
  { name = "path", type = "text", from = "request.path" },
  { name = "range", type = "text", from = "request.header.range" },
  { name = "status", type = "int", from = "reply.status" },
]
"#;
    recorded + stream
}

#[test]
fn a_browser_shows_the_example_and_hears_sound_from_another_place() {
    let app = checked_example("site", with_requests, CHECK);
    fs::write(app.path().join("public/tone.wav"), sound()).unwrap();
    let server = app.start();
    let (browser, said) = said(&app, &server);
    let expected = json!({
        "width": "640px", "image": 64, "score": "41", "again": 200, "part": "206 WAVE",
        "length": SOUND_SECONDS, "place": 200,
    });
    assert_eq!(said, expected);
    drop(browser);
    assert!(server.stop().0.success());
    let count = |of: &str| app.query::<i64>(&format!("SELECT count(*) FROM files WHERE {of}"))[0];
    // The browser sought to a later time by requesting a range of bytes. It requested the style only on the
    // condition that the style changed.
    let far = "path = '/tone.wav' AND status = 206 AND CAST(substr(range, 7) AS INTEGER) > 10000000";
    assert!(count(far) > 0, "{:?}", app.query::<String>("SELECT range FROM files WHERE path = '/tone.wav'"));
    assert_eq!(count("path = '/style.css' AND status = 304"), 1);
    assert_eq!(count("status >= 400 AND path <> '/favicon.ico'"), 0);
}

/// The script that plays a film in the page, and returns its length and the colour of its pictures.
const WATCH: &str = r#"
  const video = document.createElement("video")
  video.muted = true
  video.preload = "metadata"
  video.src = "/film.webm"
  document.body.append(video)
  const canvas = document.createElement("canvas").getContext("2d")
  const colour = () => {
    canvas.drawImage(video, 0, 0)
    const [red, , blue] = canvas.getImageData(32, 32, 1, 1).data
    return red > 200 && blue < 50 ? "red" : red < 50 && blue > 200 ? "blue" : `${red}, ${blue}`
  }
  // `seeked` may come while the picture from before is still the one that is drawn.
  const shown = second => new Promise(resolve => {
    const look = (_, { mediaTime }) => Math.floor(second) === mediaTime ? resolve() : video.requestVideoFrameCallback(look)
    video.requestVideoFrameCallback(look)
  })
  await event(video, "loadedmetadata")
  const seen = []
  for (const second of [200.5, 30.5, 230.5]) {
    const picture = shown(second)
    video.currentTime = second
    await event(video, "seeked")
    await picture
    seen.push(colour())
  }
  return { length: video.duration, width: video.videoWidth, seen, place: video.currentTime }
"#;

#[test]
fn a_browser_sees_a_film_from_another_place() {
    let app = checked_example("site", with_requests, WATCH);
    let film = film();
    fs::write(app.path().join("public/film.webm"), &film).unwrap();
    let server = app.start();
    let (browser, said) = said(&app, &server);
    let expected = json!({
        "length": film::SECONDS, "width": 64, "seen": ["blue", "red", "blue"], "place": 230.5,
    });
    assert_eq!(said, expected);
    drop(browser);
    assert!(server.stop().0.success());
    // The browser sought to a later time by requesting a range of bytes. It did not read the bytes before
    // this range.
    let ranges = app.query::<String>("SELECT range FROM files WHERE path = '/film.webm' AND status = 206");
    let begins = |range: &String| range.strip_prefix("bytes=")?.split('-').next()?.parse::<usize>().ok();
    let is_far = |begin: usize| begin > film.len() / 4 * 3;
    assert!(ranges.iter().filter_map(begins).any(is_far), "{ranges:?}");
}
