//! The output of each command in a terminal of 60 and of 100 columns, compared with files in `golden/`.
//!
//! `TOLLGATE_WRITE_GOLDEN=1` writes the files again. Placeholders replace times, ids, sizes
//! and ports. An escape character is `\e`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{App, KEEP};
use crate::status_watch::answer_status;
use crate::terminal::Terminal;

/// A status with all kinds of figures.
pub(crate) const STATUS: &str = include_str!("golden/status.json");

const WRITE: &str = "TOLLGATE_WRITE_GOLDEN";
const WIDTHS: [u16; 2] = [60, 100];
/// Replaces the path of the folder, with the same length, so that lines break at the same places.
const FOLDER: &str = "/tmp/app-folder";
/// Units after a number that differs from run to run.
const UNITS: [(&str, &str); 9] = [
    ("us", "TIME"),
    ("ms", "TIME"),
    ("s", "TIME"),
    ("B", "SIZE"),
    ("KiB", "SIZE"),
    ("MiB", "SIZE"),
    ("GiB", "SIZE"),
    ("KiB/s", "SIZE/s"),
    ("MiB/s", "SIZE/s"),
];

/// The golden files of an app at one width.
pub(crate) struct Golden {
    folder: PathBuf,
    columns: u16,
}

impl Golden {
    pub(crate) fn of(app: &App, columns: u16) -> Self {
        Self { folder: app.path().to_owned(), columns }
    }

    /// Compares a text with its file, or writes the file.
    pub(crate) fn check(&self, name: &str, shown: &str) {
        let file = self.file(name);
        Self::compare(&file, &self.placed(shown));
    }

    /// Compares a text without values that differ from run to run.
    pub(crate) fn check_exact(&self, name: &str, shown: &str) {
        Self::compare(&self.file(name), &self.escaped(shown));
    }

    fn file(&self, name: &str) -> PathBuf {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let file = format!("{}.{}.txt", name.trim_matches('-'), self.columns);
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(file)
    }

    fn compare(file: &Path, text: &str) {
        if std::env::var_os(WRITE).is_some() {
            fs::write(file, text).unwrap();
        }
        let expected = fs::read_to_string(file).unwrap_or_default();
        let hint = format!("{}: if the change is wanted, run the test with {WRITE}=1", file.display());
        assert_eq!(text, expected, "{hint}");
    }

    /// Runs a command to its end, and compares what it shows and its exit code.
    fn run(&self, name: &str, arguments: &[&str]) {
        let (status, shown) = Terminal::run(&self.folder, arguments, (self.columns, 50)).end();
        self.check(name, &format!("{shown}\n[exit code {}]\n", status.code().unwrap()));
    }

    fn escaped(&self, shown: &str) -> String {
        let text = without_progress(&shown.replace("\r\r\n", "\n").replace("\r\n", "\n"));
        text.replace(&self.folder.display().to_string(), FOLDER).replace('\u{1b}', "\\e")
    }

    /// Replaces what differs from run to run.
    fn placed(&self, shown: &str) -> String {
        let text = self.escaped(shown);
        text.split_inclusive('\n').map(placed_line).collect()
    }
}

/// Removes the progress, which a quick machine does not show. Each progress ends with `ESC [ K CR`.
fn without_progress(text: &str) -> String {
    let mut kept = String::new();
    for part in text.split_inclusive("\u{1b}[K\r") {
        match part.strip_suffix("\u{1b}[K\r") {
            Some(part) => kept.push_str(&part[..part.rfind('\n').map_or(0, |at| at + 1)]),
            None => kept.push_str(part),
        }
    }
    kept
}

fn placed_line(line: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-:.+/".contains(c);
    let mut words: Vec<String> = Vec::new();
    for character in line.chars() {
        match words.last_mut() {
            Some(word) if word.chars().all(|c| is_word(c) == is_word(character)) => word.push(character),
            _ => words.push(character.to_string()),
        }
    }
    for at in 0..words.len() {
        let word = words[at].split('/').map(placed_word).collect::<Vec<_>>().join("/");
        words[at] = word;
        let unit = words.get(at + 2).filter(|_| words.get(at + 1).is_some_and(|space| space == " "));
        let unit = unit.and_then(|word| UNITS.iter().find(|(unit, _)| word == unit));
        if let Some((_, place)) = unit.filter(|_| words[at].parse::<f64>().is_ok()) {
            (words[at], words[at + 1], words[at + 2]) = ((*place).to_owned(), String::new(), String::new());
        }
    }
    // The columns of a table are as wide as their values.
    let text = words.concat();
    let (start, rest) = text.split_at(text.find(|c| c != ' ').unwrap_or_default());
    let mut collapsed = start.to_owned();
    for part in rest.split_inclusive("  ") {
        match part.strip_suffix("  ") {
            Some("") => {}
            Some(part) => collapsed.push_str(&format!("{}  ", part.trim_start_matches(' '))),
            None => collapsed.push_str(part.trim_start_matches(' ')),
        }
    }
    collapsed
}

fn placed_word(word: &str) -> String {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_id = |text: &str| text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if is_id(word) || word.get(..36).is_some_and(is_id) {
        return format!("LOG-ID{}", &word[36..]);
    }
    if word.len() >= 20 && word.as_bytes()[10] == b'T' && digits >= 14 {
        return "RFC3339".to_owned();
    }
    if word.len() == 8 && digits == 6 && word.matches(':').count() == 2 {
        return "CLOCK".to_owned();
    }
    if word.len() >= 8 && is_hex(word) {
        return "HEX".to_owned();
    }
    match word.rsplit_once(':') {
        Some((name, digest)) if digest.len() == 64 && is_hex(digest) => format!("{name}:HEX"),
        Some((host, port)) if host.starts_with("127.0.0.1") && port.parse::<u16>().is_ok() => {
            format!("{host}:PORT")
        }
        _ => word.to_owned(),
    }
}

const CONFIG: &str = "connections_max = 100\n[log]\nnode = \"web-1\"\n\
    [stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n\
    [[route]]\npath = \"/a\"\nscript = \"a.luau\"\nstream = \"a\"\n\
    [[route]]\npath = \"/take\"\ncollect = true\nstream = \"a\"\n";
const TESTS: &str = "return {\n  [\"n is recorded\"] = function(t)\n    \
    t.equal(t:request{ path = \"/a?n=1\" }.record.n, 1)\n  end,\n  \
    [\"n is two\"] = function(t)\n    t.equal(t:request{ path = \"/a?n=1\" }.record.n, 2)\n  end,\n}\n";

/// Returns an app whose server has recorded and loaded three records.
fn recorded() -> App {
    let files = [
        ("a.luau", KEEP),
        ("tests/a.luau", TESTS),
        ("store/README", "A folder for segments.\n"),
        ("body.json", "[{\"n\":1},{\"n\":\"x\"}]"),
        ("bad/tollgate.toml", "[server]\nport = 8080\n[route]\npath = \"/users/:id\"\nreply = {}\n"),
    ];
    let app = App::new_in(Path::new("/tmp"), CONFIG, &files);
    let server = app.start();
    (0..3).for_each(|n| assert_eq!(server.connect().get(&format!("/a?n={n}")).unwrap().status, 200));
    server.stop();
    app
}

#[test]
fn commands_on_an_app_and_its_records_print_as_the_golden_files() {
    for columns in WIDTHS {
        let app = recorded();
        let golden = Golden::of(&app, columns);
        for (name, arguments) in [
            ("new --api", &["new", "--api", "api"][..]),
            ("new --collect", &["new", "--collect", "collect"]),
            ("new --webhook", &["new", "--webhook", "webhook"]),
            ("new --site", &["new", "--site", "site"]),
            ("check", &["check"]),
            ("check --types", &["check", "--types"]),
            ("check --sample", &["check", "--sample", "body.json", "--route", "/take"]),
            ("check faults", &["check", "bad"]),
            ("test", &["test"]),
            ("log ls", &["log", "ls"]),
            ("log cat", &["log", "cat"]),
            ("log cat --format text", &["log", "cat", "--format", "text"]),
            ("log verify", &["log", "verify"]),
            ("log repair --dry-run", &["log", "repair", "--dry-run"]),
            ("load --once", &["load", "--once"]),
            ("audit", &["audit"]),
            ("sql", &["sql", "SELECT n FROM a ORDER BY n"]),
            ("ship --dry-run", &["ship", "--to", "store", "--dry-run"]),
            ("ship", &["ship", "--to", "store"]),
            ("audit --store", &["audit", "--store", "store"]),
            ("ship cost", &["ship", "cost"]),
            ("cert ls", &["cert", "ls"]),
            ("status silence", &["status"]),
            ("reload silence", &["reload"]),
            ("serve --listen 8080", &["serve", "--listen", "8080"]),
            ("wrong usage", &["serv"]),
            ("help", &["--help"]),
            ("help serve", &["serve", "--help"]),
        ] {
            golden.run(name, arguments);
        }
    }
}

#[test]
fn a_status_prints_as_the_golden_files() {
    for columns in WIDTHS {
        let app = App::new_in(Path::new("/tmp"), CONFIG, &[("a.luau", KEEP)]);
        answer_status(&app.log_dir(), STATUS);
        let (_, shown) = Terminal::run(app.path(), &["status"], (columns, 50)).end();
        Golden::of(&app, columns).check_exact("status", &shown);
    }
}

#[test]
fn places_are_those_of_values_that_differ_from_run_to_run() {
    let line = "01a223c9-b9c6-7747-9300-bc7bef9f13d4/1.seg  at 2026-11-28T20:12:32.585Z took 381 us,    \
                0.4 KiB \
                127.0.0.1:4711 23fa2540df6b 20:12:32 3 rows\n";
    assert_eq!(
        placed_line(line),
        "LOG-ID/1.seg  at RFC3339 took TIME,  SIZE 127.0.0.1:PORT HEX CLOCK 3 rows\n"
    );
    assert_eq!(without_progress("a\nverify 1%\u{1b}[K\rverify 2%\u{1b}[K\rb\n"), "a\nb\n");
}
