//! `tollgate audit --store`: the counts of the machine that ships and of the machine that loads add up, and
//! lost, damaged and foreign objects are listed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::gateway::{ACCESS_KEY, Gateway, SECRET_KEY};
use crate::load_from::{SQLITE, database_machine};
use crate::program::{App, BINARY, printed};
use crate::sinks::{STREAMS, record};

/// Makes the web machine, which ships to a store.
fn web_machine(target: &str) -> App {
    let node = STREAMS.replace("[log]", "[log]\nnode = \"web/1\"");
    App::new(&format!("{node}\n[ship.main]\n{target}\n"), &[])
}

/// Records numbers in one run of the server, which ships them at its end.
fn run(web: &App, numbers: std::ops::Range<u64>) {
    let server = web.start();
    record(&mut server.connect(), "/a", numbers);
    assert!(server.stop().0.success());
}

/// Returns the line of a sum, which must be there.
fn sum(output: &Output) -> String {
    let text = printed(output);
    text.lines().find(|line| line.contains("exact: ")).unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn expect(output: &Output, code: i32, expected: &str) {
    assert_eq!((output.status.code(), sum(output).as_str()), (Some(code), expected), "{}", printed(output));
}

/// Returns the objects of all segments in a folder, sorted.
fn objects(store: &TempDir) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![store.path().join("v1/seg")]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[test]
fn both_machines_account_for_every_record_on_its_way() {
    let store = TempDir::new().unwrap();
    let place = store.path().to_str().unwrap();
    let web = web_machine(&format!("dir = \"{place}\""));
    let base = database_machine(SQLITE);
    run(&web, 0..2_000);
    let of_web = || web.run(&["audit", "--store", "main"]);
    let of_base = || base.run(&["audit", "--store", place]);
    expect(&of_web(), 0, "exact: 2000 ingested = 0 unshipped + 2000 shipped + 0 answered + 0 missing");
    let results = "0 loaded + 0 rejected + 0 duplicate + 0 given_up + 0 missing";
    expect(&of_base(), 0, &format!("exact: 2000 ingested = 0 shipped + 2000 pending + {results}"));
    assert!(
        printed(&of_base()).lines().any(|line| line.ends_with(" yes       web/1")),
        "the log is complete"
    );
    assert!(base.run(&["load", "--once", "--from", place]).status.success());
    expect(&of_web(), 0, "exact: 2000 ingested = 0 unshipped + 0 shipped + 2000 answered + 0 missing");
    let results = "2000 loaded + 0 rejected + 0 duplicate + 0 given_up + 0 missing";
    expect(&of_base(), 0, &format!("exact: 2000 ingested = 0 shipped + 0 pending + {results}"));
    let lines = base.succeed(&["audit", "--store", place, "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| line.parse().unwrap()).collect();
    let line = lines.iter().find(|line| line["stream"] == "a").unwrap();
    assert_eq!(
        (&line["side"], &line["sink"], &line["node"]),
        (&"database".into(), &"main".into(), &"web/1".into())
    );
    assert_eq!(
        (&line["loaded"], &line["unshipped"], &line["complete"]),
        (&2000.into(), &Value::Null, &true.into())
    );
    let end = lines.last().unwrap();
    assert_eq!((&end["closes"], &end["ingested"]), (&true.into(), &2000.into()), "{end}");
}

#[test]
fn lost_records_are_missing_until_an_operator_gives_them_up() {
    let store = TempDir::new().unwrap();
    let place = store.path().to_str().unwrap();
    let web = web_machine(&format!("dir = \"{place}\""));
    let base = database_machine(SQLITE);
    run(&web, 0..6_000);
    let segments = objects(&store);
    assert!(segments.len() > 3, "several segments");
    let first_of = |at: usize| segments[at].file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let log = segments[0].parent().unwrap().file_name().unwrap().to_str().unwrap();
    let last = first_of(1) - 1;
    fs::remove_file(&segments[0]).unwrap();
    fs::write(store.path().join("v1/seg/notes.txt"), "of another program").unwrap();
    let of_base = || base.run(&["audit", "--store", place]);
    let output = of_base();
    let text = printed(&output);
    let hole = format!("hole: records 1-{last} of log {log} of web%2F1: the store lacks their segment\n");
    assert!(text.contains(&hole) && text.contains("foreign name: v1/seg/notes.txt\n"), "{text}");
    let results = format!("0 loaded + 0 rejected + 0 duplicate + 0 given_up + {last} missing");
    expect(&output, 1, &format!("exact: 6000 ingested = {} shipped + 0 pending + {results}", 6_000 - last));
    // The machine that wrote them still has the records.
    let of_web = web.run(&["audit", "--store", "main"]);
    let counts = format!("{last} unshipped + {} shipped + 0 answered + 0 missing", 6_000 - last);
    expect(&of_web, 0, &format!("exact: 6000 ingested = {counts}"));
    base.succeed(&["load", "--skip", log, &format!("1-{last}")]);
    let output = base.run(&["load", "--once", "--from", place]);
    let text = printed(&output);
    let given_up = format!("sink main: given up: records 1-{last} of log {log}: skipped by command\n");
    assert!(output.status.success() && text.contains(&given_up), "{text}");
    let results = format!("{} loaded + 0 rejected + 0 duplicate + {last} given_up + 0 missing", 6_000 - last);
    expect(&of_base(), 0, &format!("exact: 6000 ingested = 0 shipped + 0 pending + {results}"));
}

#[test]
fn damaged_segments_and_segments_of_a_later_version_are_listed_with_their_ranges() {
    let store = TempDir::new().unwrap();
    let place = store.path().to_str().unwrap();
    let web = web_machine(&format!("dir = \"{place}\""));
    let base = database_machine(SQLITE);
    run(&web, 0..6_000);
    let segments = objects(&store);
    let first_of = |at: usize| segments[at].file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let mut bytes = fs::read(&segments[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&segments[0], bytes).unwrap();
    let mut bytes = fs::read(&segments[2]).unwrap();
    // The version is in bytes 8 and 9 of the header. If only it changed, the segment would count as damaged.
    (bytes[8], bytes[33]) = (9, bytes[33] ^ 1);
    fs::write(&segments[2], bytes).unwrap();
    let output = base.run(&["audit", "--store", place]);
    let text = printed(&output);
    let damaged = format!("damaged segment: records 1-{} of log ", first_of(1) - 1);
    let later = format!("later version: records {}-{} of log ", first_of(2), first_of(3) - 1);
    assert!(text.contains(&damaged) && text.contains(&later), "{text}");
    let (missing, shipped) = (first_of(1) - 1, 6_001 - first_of(1));
    let results = format!("0 loaded + 0 rejected + 0 duplicate + 0 given_up + {missing} missing");
    expect(&output, 1, &format!("exact: 6000 ingested = {shipped} shipped + 0 pending + {results}"));
}

#[test]
fn a_missing_last_segment_is_a_hole_if_its_machine_reported_it_as_shipped() {
    let store = TempDir::new().unwrap();
    let place = store.path().to_str().unwrap();
    let web = web_machine(&format!("dir = \"{place}\""));
    let base = database_machine(SQLITE);
    run(&web, 0..6_000);
    let segments = objects(&store);
    let last = segments.last().unwrap();
    let first = last.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let log = last.parent().unwrap().file_name().unwrap().to_str().unwrap();
    fs::remove_file(last).unwrap();
    fs::remove_file(store.path().join("v1/end").join(log)).unwrap();
    let (of_base, known) = (|| base.run(&["audit", "--store", place]), first - 1);
    let results = "0 loaded + 0 rejected + 0 duplicate + 0 given_up";
    expect(
        &of_base(),
        0,
        &format!("exact: {known} ingested = 0 shipped + {known} pending + {results} + 0 missing"),
    );
    let report =
        format!("log {log}\nshipped 6000\nat_ms 1\nevery_ms 1\nunshipped_segments 0\nunshipped_bytes 0\n");
    fs::write(store.path().join("v1/node/web%2F1"), report).unwrap();
    let missing = 6_001 - first;
    let sum = format!("exact: 6000 ingested = 0 shipped + {known} pending + {results} + {missing} missing");
    expect(&of_base(), 1, &sum);
    assert!(printed(&of_base()).contains(&format!("hole: records {first}-6000 of log {log}")));
}

#[test]
fn two_machines_with_one_log_are_listed_as_a_fork() {
    let store = TempDir::new().unwrap();
    let place = store.path().to_str().unwrap();
    let web = web_machine(&format!("dir = \"{place}\""));
    run(&web, 0..2_000);
    let log = objects(&store)[0].parent().unwrap().to_owned();
    let other = store.path().join("v1/seg/web%2F2").join(log.file_name().unwrap());
    fs::create_dir_all(&other).unwrap();
    fs::copy(&objects(&store)[0], other.join("00000000000000000001.seg")).unwrap();
    // The other machine wrote other records under the same number, so the segment has another identity.
    fs::copy(&objects(&store)[1], &objects(&store)[0]).unwrap();
    let text = printed(&web.run(&["audit", "--store", "main"]));
    assert!(text.contains("of web%2F2: another machine has segments of this log too\n"), "{text}");
    assert!(text.contains(" of web%2F1: the store has another segment of this name: "), "{text}");
    let text = printed(&database_machine(SQLITE).run(&["audit", "--store", place]));
    assert!(text.contains("fork: log "), "{text}");
}

#[test]
fn the_accounts_of_an_s3_server_add_up() {
    let gateway = Gateway::start();
    let endpoint = format!("http://{}", gateway.address);
    let web = web_machine(&format!(
        "store = \"s3://logs/a\"\nendpoint = \"{endpoint}\"\naccess_key = \"{ACCESS_KEY}\"\n\
         secret_key = \"file:key\""
    ));
    web.write("key", SECRET_KEY);
    let base = database_machine(SQLITE);
    run(&web, 0..2_000);
    let of_base = |command: &[&str]| {
        Command::new(BINARY)
            .args(command)
            .args(["s3://logs/a", "--endpoint", &endpoint])
            .arg(base.path())
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .output()
            .unwrap()
    };
    fs::write(gateway.path_of("a/v1/seg/notes.txt"), "of another program").unwrap();
    let of_web = || web.run(&["audit", "--store", "main"]);
    expect(&of_web(), 0, "exact: 2000 ingested = 0 unshipped + 2000 shipped + 0 answered + 0 missing");
    let output = of_base(&["audit", "--store"]);
    assert!(printed(&output).contains("foreign name: v1/seg/notes.txt\n"), "{}", printed(&output));
    let results = "0 loaded + 0 rejected + 0 duplicate + 0 given_up + 0 missing";
    expect(&output, 0, &format!("exact: 2000 ingested = 0 shipped + 2000 pending + {results}"));
    assert!(of_base(&["load", "--once", "--from"]).status.success());
    expect(&of_web(), 0, "exact: 2000 ingested = 0 unshipped + 0 shipped + 2000 answered + 0 missing");
    let results = "2000 loaded + 0 rejected + 0 duplicate + 0 given_up + 0 missing";
    expect(
        &of_base(&["audit", "--store"]),
        0,
        &format!("exact: 2000 ingested = 0 shipped + 0 pending + {results}"),
    );
}
