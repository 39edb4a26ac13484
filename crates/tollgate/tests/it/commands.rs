//! The commands other than `serve`, and faults that `serve` reports instead of a start.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use rustix::process::Signal;

use crate::client::{get, post};
use crate::program::{App, KEEP, eventually, printed};

const CONFIG: &str = r#"
[stream.all]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/keep"
script = "keep.luau"
stream = "all"
"#;

/// Makes an app whose log has three sealed segments of ten records.
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
    let beside = app.succeed(&["log", "verify"]);
    assert!(beside.contains("\n3 logs equal to the database, 0 different\n"), "{beside}");
    assert!(
        lines[..3].iter().all(|line| line.starts_with("ok ") && line.contains("records 1-10  sha256:")),
        "{text}"
    );
    assert_eq!(lines[3], "3 segments in 3 logs: 3 ok, 0 open, 0 torn, 0 bad");
}

#[test]
fn verify_names_the_place_and_records_of_a_flipped_bit_and_a_start_loads_the_rest() {
    // A segment header has 128 bytes, and a batch header has 64. The first batch holds the schema. Each
    // record after it has a batch of its own.
    check_flipped_bit("segment header", 20, 0, 1);
    check_flipped_bit("header of the first batch", 128 + 20, 128, 1);
    check_flipped_bit("payload of the first batch", 128 + 64 + 4, 128, 1);
    let first = first_record_batch();
    check_flipped_bit("header of a batch of records", first + 20, first, 1);
    check_flipped_bit("payload of a batch of records", first + 64 + 9, first, 1);
    check_flipped_bit("footer", -100, -1, 11);
}

/// Returns the offset of the first batch of records, which follows the batch of the schemas. A batch begins
/// at a multiple of eight bytes.
fn first_record_batch() -> i64 {
    let app = app_with_log();
    let bytes = fs::read(&app.segments()[0]).unwrap();
    let payload_bytes = u32::from_le_bytes(bytes[136..140].try_into().unwrap());
    (128 + 64 + u64::from(payload_bytes)).next_multiple_of(8).cast_signed()
}

/// Flips a bit in the second of three segments that are not loaded. Checks the report and the loaded rows.
fn check_flipped_bit(place: &str, flipped: i64, told_offset: i64, told_first: u64) {
    let app = app_with_log();
    let segment = app.segments().swap_remove(1);
    flip_bit(&segment, flipped);
    let output = app.run(&["log", "verify"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{place}: {text}");
    let bad = text.lines().find(|line| line.starts_with("BAD ")).expect(&text);
    let begins = match told_offset {
        // The footer begins at the end of the batches.
        -1 => format!("BAD   {} at byte ", segment.display()),
        _ => format!("BAD   {} at byte {told_offset}: records {told_first}-", segment.display()),
    };
    assert!(bad.starts_with(&begins) && bad.contains(&format!(": records {told_first}-")), "{place}: {bad}");
    assert!(text.ends_with("3 segments in 3 logs: 2 ok, 0 open, 0 torn, 1 bad\n"), "{place}: {text}");
    check_intact_is_loaded(&app, place);
}

/// Loads into a new database. The missing range is reported as a gap.
fn check_intact_is_loaded(app: &App, place: &str) {
    fs::remove_file(app.path().join("data/tollgate.sqlite")).unwrap();
    let server = app.start();
    assert!(server.connect().get("/keep?n=30").unwrap().is_success(), "{place}: it serves");
    let (status, log) = server.stop();
    assert!(status.success(), "{place}: {log}");
    let one = |sql: &str| app.query::<i64>(sql)[0];
    let intact = one("SELECT count(DISTINCT n) FROM \"all\" WHERE n < 10 OR n >= 20");
    let damaged = one("SELECT count(DISTINCT n) FROM \"all\" WHERE n BETWEEN 10 AND 19");
    let missing = one("SELECT coalesce(sum(last - first + 1), 0) FROM tollgate_gaps");
    assert_eq!((intact, damaged + missing), (21, 10), "{place}: {damaged} of ten loaded, {missing} missing");
    assert_eq!(one("SELECT count(*) FROM \"all\""), intact + damaged, "{place}: none twice");
    let audit = app.run(&["audit"]);
    assert_eq!(audit.status.code(), Some(i32::from(missing > 0)), "{place}: {}", printed(&audit));
}

/// Flips a bit. A negative offset counts from the end.
fn flip_bit(file: &Path, offset: i64) {
    let mut bytes = fs::read(file).unwrap();
    let offset = if offset < 0 { bytes.len() - offset.unsigned_abs() as usize } else { offset as usize };
    bytes[offset] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn damage_is_told_at_each_start_until_it_is_accepted_and_again_when_it_grows() {
    let app = app_with_log();
    let segment = app.segments().swap_remove(1);
    flip_bit(&segment, 128 + 64 + 40);
    app.run(&["log", "repair"]);
    let aside = segment.with_extension("damaged");
    let verify = |code: i32, word: &str| {
        let output = app.run(&["log", "verify"]);
        let text = printed(&output);
        assert!(output.status.code() == Some(code) && text.contains(word), "{text}");
    };
    // The thread that looks for damage may need a moment after the start.
    let expect = |code: i32| {
        let code_of = || app.run(&["status", "--exit-code"]).status.code();
        eventually("the state", || (code_of() == Some(code)).then_some(()));
    };
    for _ in 0..2 {
        let server = app.start();
        expect(1);
        let text = app.succeed(&["status"]);
        assert!(text.contains(&format!("1 segment is damaged, the first is {}", aside.display())), "{text}");
        server.stop();
    }
    verify(1, "\nBAD   ");
    let server = app.start();
    expect(1);
    let accepted = app.succeed(&["log", "accept", aside.to_str().unwrap()]);
    assert_eq!(accepted, format!("accepted  {}\n", aside.display()));
    expect(0);
    verify(0, ", 0 bad, 1 accepted\n");
    let (_, log) = server.stop();
    assert!(log.contains("\"segment is damaged: its intact records are loaded\""), "{log}");
    let server = app.start();
    expect(0);
    let (_, log) = server.stop();
    assert!(!log.contains("segment is damaged"), "{log}");
    flip_bit(&aside, 128 + 64 + 50);
    verify(1, "\nBAD   ");
    let server = app.start();
    expect(1);
    app.succeed(&["log", "accept", aside.to_str().unwrap()]);
    expect(0);
    server.stop();
    let intact = app.segments().swap_remove(0);
    for (file, reason) in [
        (intact.to_str().unwrap(), "the segment is not damaged"),
        ("data/tollgate.sqlite", "it is not a segment in a log folder"),
    ] {
        let output = app.run(&["log", "accept", file]);
        assert!(output.status.code() == Some(1) && printed(&output).contains(reason), "{}", printed(&output));
    }
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
fn a_script_that_does_not_compile_stops_the_start_with_file_line_and_text() {
    let app = App::new(CONFIG, &[("keep.luau", "return function(req)\n  retrun 204\nend")]);
    let told: Vec<_> = ["check", "serve"].map(|command| refusal(&app, command, 2)).into();
    for text in &told {
        assert!(text.contains("keep.luau") && text.contains("line 2"), "{text}");
        assert!(text.contains("Incomplete statement"), "{text}");
    }
    assert_eq!(told[0].trim_start_matches("tollgate: "), told[1].trim_start_matches("tollgate: "));
    assert!(!app.log_dir().exists(), "nothing was begun");
}

/// Returns the output of a command that must fail.
fn refusal(app: &App, command: &str, code: i32) -> String {
    let output = app.run(&[command]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(code), "{command}: {text}");
    assert!(output.stdout.is_empty(), "{command}: {text}");
    text
}

#[test]
fn faults_of_a_configuration_are_told_all_at_once_with_their_place() {
    let app =
        App::new("prot = 1\n[log]\nsegment_bytes_max = \"1\"\n[[route]]\npath = \"keep\"\nreply = {}\n", &[]);
    let told: Vec<_> = ["check", "serve"].map(|command| refusal(&app, command, 2)).into();
    for place in ["tollgate.toml:4:", "tollgate.toml:7:", "tollgate.toml:9:"] {
        assert!(told[0].contains(place), "{place} in {}", told[0]);
    }
    assert!(told[0].contains("prot") && told[0].contains("segment_bytes_max"), "{}", told[0]);
    assert_eq!(told[0], told[1]);
}

/// Makes several backends with this many connections each, and routes whose bodies may or may not stream.
fn proxies(concurrency_max: u32) -> App {
    let backend = |name: &str| {
        format!("[backend.{name}]\nurls = [\"http://127.0.0.1:9\"]\nconcurrency_max = {concurrency_max}\n")
    };
    let route = |path: &str, backend: &str, more: &str| {
        format!("[[route]]\npath = \"{path}\"\nproxy = \"{backend}\"\n{more}\n")
    };
    let config = [
        // 100 connections fit the descriptor limit of every machine.
        "connections_max = 100\n".to_owned(),
        backend("streams"),
        backend("reads"),
        backend("records"),
        "[stream.all]\ncolumns = [{ name = \"n\", type = \"int\", from = \"reply.status\" }]\n".to_owned(),
        route("/long", "streams", ""),
        route("/put/*", "streams", "methods = [\"GET\", \"PUT\"]"),
        route("/short", "streams", "body_bytes_max = \"256KiB\""),
        route("/page", "reads", "methods = [\"GET\", \"HEAD\"]"),
        route("/record", "records", "stream = \"all\""),
    ];
    App::new(&config.concat(), &[])
}

#[test]
fn a_column_whose_name_log_cat_uses_itself_is_noted_and_printed_with_a_prefix() {
    let config = CONFIG
        .replace("columns = [", "columns = [{ name = \"log\", type = \"text\", from = \"request.path\" }, ");
    let app = App::new(&config, &[("keep.luau", KEEP)]);
    let output = app.run(&["check"]);
    let expected = "note: column \"log\" of [stream.all] is printed as \"column.log\" by log cat \
                    and log tail, in json and csv: the name is reserved there\n";
    assert_eq!(output.status.code(), Some(0));
    assert!(printed(&output).contains(expected), "{}", printed(&output));
    let server = app.start();
    assert!(server.connect().get("/keep?n=7").unwrap().is_success());
    assert!(server.stop().0.success());
    let line = app.succeed(&["log", "cat"]);
    assert!(line.ends_with(",\"stream\":\"all\",\"column.log\":\"/keep\",\"n\":7}\n"), "{line}");
    assert_eq!(line.matches("\"log\":").count(), 1, "{line}");
    let envelope = app.succeed(&["log", "cat", "--format", "envelope"]);
    assert!(
        envelope.ends_with(",\"_seq\":1,\"_stream\":\"all\",\"row\":{\"log\":\"/keep\",\"n\":7}}\n"),
        "{envelope}"
    );
    let csv = app.succeed(&["log", "cat", "--format", "csv", "--stream", "all"]);
    assert!(csv.starts_with("log,sequence,column.log,n\n") && csv.ends_with(",1,/keep,7\n"), "{csv}");
    let output = app.run(&["log", "cat", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
}

#[test]
fn a_column_of_times_without_a_unit_is_noted() {
    let times = "columns = [{ name = \"a\", type = \"timestamp\" }, \
                 { name = \"b\", type = \"timestamp\", unit = \"ms\" }, \
                 { name = \"c\", type = \"timestamp\", from = \"request.time\" }, ";
    let app = App::new(&CONFIG.replace("columns = [", times), &[("keep.luau", KEEP)]);
    let output = printed(&app.run(&["check"]));
    let expected = "note: column \"a\" of [stream.all] has no unit, so a number in it is microseconds, and \
                    numbers before 1975 are rejects: set unit = \"s\", \"ms\", \"us\" or \"ns\"\n";
    assert!(output.contains(expected), "{output}");
    assert_eq!(output.matches("has no unit").count(), 1, "{output}");
}

#[test]
fn a_backend_with_one_place_to_which_no_body_can_stream_is_noted_and_right() {
    let app = proxies(1);
    for arguments in [&["check"][..], &["check", "--print"]] {
        let output = app.run(arguments);
        assert!(output.status.success(), "{}", printed(&output));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "note: concurrency_max in [backend.streams] is 1, so bodies longer than body_memory_max (256KiB) \
             are spooled and do not stream. Set it to at least 2 to stream them. Routes: \"/long\", \
             \"/put/*\"\n"
        );
    }
    assert!(proxies(2).run(&["check"]).stderr.is_empty());
}

#[test]
fn a_second_server_is_refused_on_the_same_address_and_on_the_same_log() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.start();
    let text = refusal(&app, "serve", 1);
    assert!(
        text.contains(&format!(
            "{} is locked: another server uses it, stop that server first",
            app.log_dir().display()
        )),
        "{text}"
    );
    let other = App::new("", &[("keep.luau", KEEP)]);
    other.write("tollgate.toml", &format!("[server]\nlisten = [\"{}\"]\n{CONFIG}", server.address()));
    let text = refusal(&other, "serve", 1);
    assert!(text.contains(&format!("cannot listen on {}", server.address())), "{text}");
    assert!(server.connect().get("/keep?n=1").unwrap().is_success(), "the first is not disturbed");
    assert!(server.stop().0.success());
    assert_eq!(app.query::<i64>("SELECT n FROM \"all\""), [1]);
}

#[test]
fn a_folder_of_scripts_is_a_service_without_a_configuration() {
    let app = App::bare(&[("routes/users/[id].luau", "return { GET = function() return 204 end }")]);
    // The default address is fixed, so it may be in use. This test itself listens on it, and all earlier
    // steps of the start succeed.
    let _taken = TcpListener::bind("127.0.0.1:8080");
    let text = refusal(&app, "serve", 1);
    assert!(text.contains("cannot listen on 127.0.0.1:8080"), "{text}");
    let text = app.succeed(&["check", "--print"]);
    assert!(text.contains("path = \"/users/{id}\"") && text.contains("[stream.requests]"), "{text}");
    app.write("tollgate.toml", &text.replace("127.0.0.1:8080", "127.0.0.1:0"));
    let server = app.start();
    assert_eq!(server.connect().get("/users/7").unwrap().status, 204);
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT path FROM requests"), ["/users/7"]);
}

#[test]
fn ctrl_c_drains_and_exits_with_success_while_connections_are_idle() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.start();
    let mut idle = server.connect();
    let mut silent = server.connect();
    assert!(idle.get("/keep?n=1").unwrap().is_success());
    server.signal(Signal::INT);
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(idle.ends() && silent.ends());
    assert_eq!(app.query::<i64>("SELECT n FROM \"all\""), [1]);
}

#[test]
fn requests_in_flight_at_sigterm_are_answered_and_loaded() {
    // One worker serves all connections. When it closes the idle connection, it has received the order to
    // stop.
    let app = App::new(&format!("workers = 1\n{CONFIG}"), &[("keep.luau", KEEP)]);
    let server = app.start();
    let (head, body) = (get("/keep?n=7"), post("/keep?n=8", "a body"));
    let (head, body) = (head.split_at(head.len() - 2), body.split_at(body.len() - 3));
    let mut clients = [server.connect(), server.connect()];
    assert!(clients[0].send(head.0) && clients[1].send(body.0));
    let mut idle = server.connect();
    assert!(idle.get("/keep?n=9").unwrap().is_success());
    server.signal(Signal::TERM);
    assert!(idle.ends(), "an idle connection is closed");
    assert!(clients[0].send(head.1) && clients[1].send(body.1));
    for client in &mut clients {
        let reply = client.reply().expect("a reply");
        assert_eq!((reply.status, reply.field("connection")), (200, Some("close")));
        assert!(client.ends());
    }
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(app.query::<i64>("SELECT n FROM \"all\" ORDER BY n"), [7, 8, 9]);
}

#[test]
fn listing_and_printing_show_what_is_in_the_log() {
    let app = app_with_log();
    let listed = app.succeed(&["log", "ls"]);
    assert_eq!(
        listed.lines().filter(|line| line.contains(" sealed ") && line.contains(" 1..10 ")).count(),
        3
    );
    let printed = app.succeed(&["log", "cat", "--stream", "all"]);
    let numbers: Vec<_> = printed.lines().map(|line| number(line, "n")).collect();
    assert_eq!(numbers, (0..30).collect::<Vec<_>>());
    let sequences: Vec<_> = printed.lines().map(|line| number(line, "sequence")).collect();
    assert_eq!(sequences, (1..=10).collect::<Vec<_>>().repeat(3));
}

/// Returns a field of a JSON line.
fn number(line: &str, field: &str) -> i64 {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line[field].as_i64().unwrap()
}

#[test]
fn sql_prints_a_table_and_writes_nothing() {
    let app = app_with_log();
    assert_eq!(
        app.succeed(&["sql", "SELECT n, n * 2 AS twice FROM \"all\" WHERE n < 2"]),
        "n  twice\n0  0\n1  2\n(2 rows)\n"
    );
    let output = app.run(&["sql", "DELETE FROM \"all\""]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert_eq!(app.query::<i64>("SELECT count(*) FROM \"all\""), [30]);
}

#[test]
fn the_help_names_the_commands_and_an_unknown_one_is_refused() {
    let app = App::bare(&[]);
    let help = app.succeed(&["--help"]);
    for command in ["serve", "check", "log", "sql", "audit"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    assert_eq!(app.run(&["serv"]).status.code(), Some(2));
}

#[test]
fn options_of_stores_and_volumes_do_not_go_with_topics() {
    let app = App::new("", &[]);
    for option in ["--endpoint=http://h", "--region=r", "--volume", "--take-over"] {
        let output = app.run(&["load", "--once", "--from", "kafka://localhost:1", option]);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(2), "{option}: {text}");
        assert!(text.contains("options of stores and volumes do not go with --from kafka://"), "{text}");
    }
}
