//! The commands beside `serve`, and what `serve` refuses.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::program::{App, told};

const CONFIG: &str = r#"
[stream.all]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/keep"
script = "keep.luau"
stream = "all"
"#;

const KEEP: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

/// An app whose log holds three sealed segments of ten records.
fn app_with_log() -> App {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    for run in 0..3 {
        let server = app.start();
        let mut client = server.connect();
        for n in 0..10 {
            assert!(client.get(&format!("/keep?n={}", run * 10 + n)).unwrap().is_success());
        }
        assert!(server.stop().0.success());
    }
    app
}

#[test]
fn verify_says_that_a_clean_log_is_clean_with_counts_and_digests() {
    let app = app_with_log();
    let text = app.succeed(&["log", "verify", "data/log"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[..3].iter().all(|line| line.starts_with("ok ") && line.contains("records 1-10  sha256:")),
        "{text}"
    );
    assert_eq!(lines[3], "3 segments in 3 logs: 3 ok, 0 open, 0 torn, 0 bad");
}

#[test]
fn verify_names_file_offset_and_records_of_one_flipped_bit() {
    // The segment header is 128 bytes, a batch header 64; the footer is the last 200 or so.
    for (place, offset) in
        [("segment header", 20), ("batch header", 128 + 20), ("payload", 128 + 64 + 40), ("footer", -100)]
    {
        let app = app_with_log();
        let segment = app.segments().swap_remove(1);
        flip_bit(&segment, offset);
        let output = app.run(&["log", "verify"]);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(1), "{place}: {text}");
        let bad = text.lines().find(|line| line.starts_with("BAD ")).expect(&text);
        let file = segment.file_name().unwrap().to_str().unwrap();
        assert!(
            bad.contains(file) && bad.contains(" at byte ") && bad.contains(" records 1"),
            "{place}: {bad}"
        );
        assert!(text.contains("2 ok, 0 open, 0 torn, 1 bad"), "{place}: {text}");
    }
}

/// Flips a bit; a negative offset counts from the end.
fn flip_bit(file: &Path, offset: i64) {
    let mut bytes = fs::read(file).unwrap();
    let offset = if offset < 0 { bytes.len() - offset.unsigned_abs() as usize } else { offset as usize };
    bytes[offset] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_log_stops_no_start_and_loses_no_row_that_was_loaded() {
    let app = app_with_log();
    for segment in app.segments() {
        flip_bit(&segment, 128 + 64 + 40);
    }
    let (status, log) = app.start().stop();
    assert!(status.success(), "{log}");
    assert_eq!(app.query::<i64>("SELECT count(*) FROM \"all\""), [30]);
}

#[test]
fn damage_before_it_was_loaded_is_a_gap_that_has_a_name() {
    let app = app_with_log();
    fs::remove_file(app.path().join("data/tollgate.sqlite")).unwrap();
    flip_bit(&app.segments()[1], 128 + 64 + 40);
    let (status, log) = app.start().stop();
    assert!(status.success(), "{log}");
    let rows = app.query::<i64>("SELECT count(*) FROM \"all\"")[0];
    let missing = app.query::<i64>("SELECT sum(last - first + 1) FROM tollgate_gaps")[0];
    assert!(missing > 0 && rows + missing == 30, "{rows} rows, {missing} missing");
    let audit = app.run(&["audit"]);
    assert_eq!(audit.status.code(), Some(1), "{}", told(&audit));
}

#[test]
fn a_script_that_does_not_compile_stops_the_start_with_file_line_and_text() {
    let app = App::new(CONFIG, &[("keep.luau", "return function(req)\n  retrun 204\nend")]);
    for command in ["check", "serve"] {
        let output = app.run(&[command]);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(2), "{command}: {text}");
        assert!(text.contains("keep.luau") && text.contains("line 2"), "{command}: {text}");
    }
}

#[test]
fn faults_of_a_configuration_are_told_all_at_once_with_their_place() {
    let app =
        App::new("prot = 1\n[log]\nsegment_bytes_max = \"1\"\n[[route]]\npath = \"keep\"\nreply = {}\n", &[]);
    for command in ["check", "serve"] {
        let output = app.run(&[command]);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        for place in ["tollgate.toml:3:", "tollgate.toml:5:", "tollgate.toml:7:"] {
            assert!(text.contains(place), "{place} in {text}");
        }
    }
}

#[test]
fn a_second_server_is_refused_on_the_same_address_and_on_the_same_log() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.start();
    let output = app.run(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("is locked: another server uses it"), "{}", told(&output));
    let other = App::new("", &[("keep.luau", KEEP)]);
    other.write("tollgate.toml", &format!("[server]\nlisten = [\"{}\"]\n{CONFIG}", server.address()));
    let output = other.run(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains(&format!("cannot listen on {}", server.address())), "{}", told(&output));
    assert!(server.connect().get("/keep?n=1").unwrap().is_success());
}

#[test]
fn a_folder_of_scripts_is_a_service_without_a_configuration() {
    // The default address is fixed, so this looks at what would be served.
    let app = App::bare(&[("routes/users/[id].luau", "return { GET = function() return 204 end }")]);
    let text = app.succeed(&["check", "--print"]);
    assert!(text.contains("path = \"/users/{id}\"") && text.contains("[stream.requests]"), "{text}");
    app.write("tollgate.toml", &text.replace("127.0.0.1:8080", "127.0.0.1:0"));
    let server = app.start();
    assert_eq!(server.connect().get("/users/7").unwrap().status, 204);
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT path FROM requests"), ["/users/7"]);
}

#[test]
fn ctrl_c_drains_and_exits_with_success() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.start();
    let mut idle = server.connect();
    assert!(idle.get("/keep?n=1").unwrap().is_success());
    server.signal(Signal::INT);
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(idle.ends());
    assert_eq!(app.query::<i64>("SELECT n FROM \"all\""), [1]);
}

#[test]
fn sql_prints_a_table_and_writes_nothing() {
    let app = app_with_log();
    assert_eq!(
        app.succeed(&["sql", "SELECT n, n * 2 AS twice FROM \"all\" WHERE n < 2"]),
        "n  twice\n0  0\n1  2\n(2 rows)\n"
    );
    let output = app.run(&["sql", "DELETE FROM \"all\""]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(app.query::<i64>("SELECT count(*) FROM \"all\""), [30]);
}

#[test]
fn help_and_version_are_there() {
    let app = App::bare(&[]);
    let help = app.succeed(&["--help"]);
    for command in ["serve", "check", "log", "sql", "audit"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    assert_eq!(app.succeed(&["--version"]), concat!("tollgate ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(app.run(&["serv"]).status.code(), Some(2));
}
