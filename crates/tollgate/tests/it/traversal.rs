//! No target makes the server send a byte from outside of the folder. Thousands of targets from a seed are
//! sent unchanged to the whole program. The folder has files next to scripts and links that lead out. All
//! folders around it have secrets.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use crate::client::Client;
use crate::program::{App, Running};

/// Content outside of the folder that must never be sent. The configuration and the script also contain it.
const CANARY: &str = "CANARY-outside-of-the-folder";
const TARGETS: usize = 12_000;
const SEED: u64 = 20_261_122;

const CONFIG: &str = r#"workers = 1 # CANARY-outside-of-the-folder
[[route]]
path = "/*"
files = "public"
[[route]]
path = "/inside/*"
[route.files]
dir = "public"
symlinks = "inside"
dotfiles = true
[[route]]
path = "/try/*"
[route.files]
dir = "public"
try = ["{path}", "{path}.html", "/index.html"]
errors = { 404 = "404.html" }
[[route]]
path = "/api/*"
script = "api.luau"
[[route]]
path = "/sub/api/*"
reply = { body = "fixed" }
"#;

/// All contents that may be sent.
const CONTENTS: [&str; 7] = ["front", "alpha", "inner", "dots", "of the script", "fixed", "hidden"];

fn app() -> App {
    let script = format!("return function() return 'of the script' end -- {CANARY}");
    let app = App::new(
        CONFIG,
        &[
            ("api.luau", script.as_str()),
            ("public/index.html", CONTENTS[0]),
            ("public/a.txt", CONTENTS[1]),
            ("public/sub/inner.txt", CONTENTS[2]),
            ("public/%2e%2e/canary.txt", CONTENTS[3]),
            ("public/sub/.env", CONTENTS[6]),
            ("public/404.html", "not here"),
            ("canary.txt", CANARY),
            ("public-secret/canary.txt", CANARY),
            ("sub/canary.txt", CANARY),
            (".env", CANARY),
        ],
    );
    let public = app.path().join("public");
    for (name, target) in [
        ("up", ".."),
        ("out.txt", "../canary.txt"),
        ("proc", "/proc/self/root"),
        ("cwd", "/proc/self/cwd"),
        ("sub/beside", "../../public-secret"),
        ("loop", "loop"),
        ("inner", "sub/inner.txt"),
    ] {
        symlink(target, public.join(name)).unwrap();
    }
    symlink(app.path().join("canary.txt"), public.join("absolute.txt")).unwrap();
    app
}

/// Pseudorandom numbers, the same for the same seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % end
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The coding of a byte in a path.
#[derive(Clone, Copy)]
enum Coding {
    Plain,
    Escaped,
    Lower,
    Twice,
    Thrice,
    OverlongTwo,
    OverlongThree,
    OverlongRaw,
    Utf16,
    FullWidth,
}

const CODINGS: [Coding; 10] = [
    Coding::Plain,
    Coding::Escaped,
    Coding::Lower,
    Coding::Twice,
    Coding::Thrice,
    Coding::OverlongTwo,
    Coding::OverlongThree,
    Coding::OverlongRaw,
    Coding::Utf16,
    Coding::FullWidth,
];

impl Coding {
    fn write(self, byte: u8, target: &mut Vec<u8>) {
        let overlong = [0xc0 | byte >> 6, 0x80 | byte & 0x3f];
        let escape = |bytes: &[u8]| bytes.iter().map(|byte| format!("%{byte:02X}")).collect::<String>();
        match self {
            Self::Plain => target.push(byte),
            Self::Escaped => target.extend(escape(&[byte]).bytes()),
            Self::Lower => target.extend(format!("%{byte:02x}").bytes()),
            Self::Twice => target.extend(format!("%25{byte:02x}").bytes()),
            Self::Thrice => target.extend(format!("%2525{byte:02x}").bytes()),
            Self::OverlongTwo => target.extend(escape(&overlong).bytes()),
            Self::OverlongThree => {
                target.extend(escape(&[0xe0, 0x80 | byte >> 6, 0x80 | byte & 0x3f]).bytes());
            }
            Self::OverlongRaw => target.extend(overlong),
            Self::Utf16 => target.extend(format!("%u00{byte:02x}").bytes()),
            Self::FullWidth => {
                let wide = char::from_u32(0xfee0 + u32::from(byte)).unwrap_or('.');
                target.extend(escape(wide.to_string().as_bytes()).bytes());
            }
        }
    }
}

/// The beginnings of paths.
const STARTS: [&str; 10] =
    ["", "", "", "/inside", "/try", "/api", "/sub/api", "http://a", "HTTP://A:80", "http://a/inside"];
const SEGMENTS: [&str; 20] = [
    "..",
    "..",
    "..",
    ".",
    "",
    "...",
    "..;",
    ".. ",
    "..\0",
    "sub",
    "public",
    "public-secret",
    "up",
    "proc",
    "cwd",
    "beside",
    "api",
    "inside",
    "a.txt",
    "C:",
];
const ENDS: [&str; 15] = [
    "canary.txt",
    "canary.txt",
    "public-secret/canary.txt",
    "tollgate.toml",
    "api.luau",
    "out.txt",
    "absolute.txt",
    ".env",
    "etc/passwd",
    "data/log",
    "canary.txt\0.html",
    "a.txt",
    "sub/inner.txt",
    "inner",
    "",
];
const SEPARATORS: &[u8] = b"////////\\";

/// Returns a random target. Most of its bytes are unchanged, so that many targets pass the first check.
fn target(random: &mut Random, app: &App) -> Vec<u8> {
    let mut target = random.one_of(&STARTS).as_bytes().to_vec();
    let coding = random.one_of(&CODINGS);
    let share = random.one_of(&[1, 2, 6]);
    let write = |random: &mut Random, bytes: &[u8], target: &mut Vec<u8>| {
        for byte in bytes {
            let coding = if random.below(share) == 0 { coding } else { Coding::Plain };
            coding.write(*byte, target);
        }
    };
    target.push(b'/');
    if random.below(12) == 0 {
        write(random, app.path().as_os_str().as_encoded_bytes(), &mut target);
        target.push(b'/');
    }
    for _ in 0..random.below(7) {
        let (segment, separator) = (random.one_of(&SEGMENTS), random.one_of(SEPARATORS));
        write(random, segment.as_bytes(), &mut target);
        let is_plain = separator == b'/' && random.below(4) > 0;
        if is_plain {
            target.push(separator);
        } else {
            write(random, &[separator], &mut target);
        }
    }
    let end = random.one_of(&ENDS);
    write(random, end.as_bytes(), &mut target);
    target
}

fn request(target: &[u8], host: &str) -> Vec<u8> {
    [b"GET ", target, b" HTTP/1.1\r\nHost: ", host.as_bytes(), b"\r\n\r\n"].concat()
}

/// Sends one request and checks the reply. Returns its status.
fn check(server: &Running, client: &mut Client, request: &[u8]) -> u16 {
    let shown = request.escape_ascii();
    assert!(client.send_bytes(request), "the connection is closed before {shown}");
    let reply = client.reply().unwrap_or_else(|| panic!("no answer to {shown}"));
    let told = || format!("{shown}: {reply:?}");
    assert!(!reply.content.contains(CANARY) && !reply.content.contains("root:"), "{}", told());
    assert!([200, 308, 400, 404].contains(&reply.status), "{}", told());
    if reply.status == 200 {
        assert!(CONTENTS.contains(&reply.content.as_str()), "{}", told());
    }
    if let Some(location) = reply.field("location") {
        assert!(location.starts_with('/') && !location.starts_with("//"), "{}", told());
    }
    if reply.field("connection") == Some("close") {
        assert!(client.ends(), "{}", told());
        *client = server.connect();
    }
    reply.status
}

#[test]
fn no_target_of_thousands_leads_out_of_the_folder() {
    let app = app();
    let server = app.start();
    let mut client = server.connect();
    let mut random = Random(SEED);
    let mut statuses = BTreeMap::<u16, usize>::new();
    for _ in 0..TARGETS {
        let target = target(&mut random, &app);
        let host = random.one_of(&["a", "a", "a", "a", "..", "a/../..", "%2e%2e"]);
        *statuses.entry(check(&server, &mut client, &request(&target, host))).or_default() += 1;
    }
    // If the first check refused all targets, the test would show nothing about files.
    let count = |status: u16| statuses.get(&status).copied().unwrap_or_default();
    assert!(
        count(200) > TARGETS / 50 && count(404) > TARGETS / 10 && count(400) > TARGETS / 10,
        "{statuses:?}"
    );
    let (status, log) = server.stop();
    assert!(status.success() && !log.contains("panic"), "{log}");
}

#[test]
fn each_known_climb_is_refused_or_finds_nothing() {
    let app = app();
    let server = app.start();
    let mut client = server.connect();
    let absolute = app.path().join("canary.txt");
    let absolute = absolute.to_str().unwrap();
    let below = |target: &str| [b"/", target.as_bytes()].concat();
    for (target, status) in [
        ("../canary.txt", 400),
        ("sub/../../canary.txt", 400),
        ("%2e%2e/canary.txt", 400),
        ("..%2fcanary.txt", 400),
        ("..%5ccanary.txt", 400),
        ("..\\canary.txt", 400),
        ("%252e%252e/canary.txt", 200),
        ("%c0%ae%c0%ae/canary.txt", 400),
        ("%c0%afcanary.txt", 400),
        ("a.txt%00", 400),
        ("../public-secret/canary.txt", 400),
        ("-secret/canary.txt", 404),
        ("up/canary.txt", 404),
        ("out.txt", 404),
        ("absolute.txt", 404),
        ("inside/up/canary.txt", 404),
        ("inside/out.txt", 404),
        ("inside/absolute.txt", 404),
        ("inside/proc/etc/passwd", 404),
        ("inside/cwd/canary.txt", 404),
        ("inside/sub/beside/canary.txt", 404),
        ("inside/loop", 404),
        ("inside/inner", 200),
        ("inside/sub/.env", 200),
        ("sub/.env", 404),
        ("api/../../canary.txt", 400),
        ("api/../canary.txt", 404),
        ("try/../../canary.txt", 400),
        ("try/up/canary.txt", 200),
        ("inside/../../.env", 400),
        ("http://a/../canary.txt", 404),
    ] {
        assert_eq!(check(&server, &mut client, &request(&below(target), "a")), status, "{target}");
    }
    for (target, status) in [
        (absolute.to_owned(), 404),
        (format!("/{absolute}"), 404),
        (format!("http://a{absolute}"), 404),
        ("http://a/../canary.txt".to_owned(), 400),
        ("http://a/inside/up/canary.txt".to_owned(), 404),
        (format!("file://{absolute}"), 400),
        ("canary.txt".to_owned(), 400),
        ("../canary.txt".to_owned(), 400),
    ] {
        assert_eq!(check(&server, &mut client, &request(target.as_bytes(), "a")), status, "{target}");
    }
}
