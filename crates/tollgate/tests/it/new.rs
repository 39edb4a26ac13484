//! `tollgate new`: the new app passes its tests and is served.

use std::fs;
use std::process::Command;

use crate::program::{App, printed};

const FILES: [&str; 6] =
    ["README.md", "app.toml", "public/index.html", "score.luau", "tests/score.luau", "tollgate.d.luau"];

#[test]
fn a_new_app_passes_its_tests_and_is_served() {
    let app = App::bare(&[]);
    let text = app.succeed(&["new", "."]);
    assert_eq!(
        text,
        "created an app in .\n  test    tollgate test .\n  serve   tollgate serve .\n  \
         try     curl 'http://127.0.0.1:8080/api/score?x=20'\n"
    );
    assert!(FILES.iter().all(|name| app.path().join(name).is_file()), "{text}");
    let tested = app.succeed(&["test"]);
    assert!(tested.ends_with("\n2 passed, 0 failed\n"), "{tested}");

    let checked = app.succeed(&["check"]);
    assert!(checked.starts_with("ok: 2 routes, 1 stream, 1 app, "), "{checked}");
    let server = app.start_with(&["--listen", "127.0.0.1:0"]);
    let mut client = server.connect();
    let scored = client.get("/api/score?x=20").unwrap();
    assert_eq!((scored.status, scored.content.as_str()), (200, r#"{"score":41}"#));
    let page = client.get("/").unwrap();
    assert_eq!(page.content, fs::read_to_string(app.path().join("public/index.html")).unwrap());
    assert!(server.stop().0.success());
    assert_eq!(app.query::<f64>("SELECT score FROM scores"), [41.0]);
}

/// A kind of app, and what its first request and its rows are.
struct Kind {
    option: &'static str,
    tests: usize,
    /// What the printed command prints.
    reply: &'static str,
    sql: &'static str,
    row: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { option: "--api", tests: 2, reply: "{\"score\":41}", sql: "SELECT score FROM scores", row: "41.0" },
    Kind {
        option: "--collect",
        tests: 2,
        reply: "{\"recorded\":1}",
        sql: "SELECT kind || value FROM events",
        row: "start2.5",
    },
    Kind {
        option: "--webhook",
        tests: 2,
        reply: "204",
        sql: "SELECT event || body FROM deliveries",
        row: "issues{\"action\":\"opened\"}",
    },
    Kind {
        option: "--site",
        tests: 3,
        reply: "thank you",
        sql: "SELECT name || text FROM messages",
        row: "AnnaHello",
    },
];

#[test]
fn each_kind_of_app_passes_its_tests_and_its_first_command_makes_a_row() {
    for Kind { option, tests, reply, sql, row } in KINDS {
        let app = App::bare(&[]);
        let told = app.succeed(&["new", option, "."]);
        let (_, command) = told.split_once("\n  try     ").unwrap();
        let tested = app.succeed(&["test"]);
        assert!(tested.ends_with(&format!("\n{tests} passed, 0 failed\n")), "{option}: {tested}");
        let checked = app.succeed(&["check", "--types"]);
        assert!(checked.starts_with("ok: "), "{option}: {checked}");
        let readme = fs::read_to_string(app.path().join("README.md")).unwrap();
        let shown = command.trim_end().replace("./deliver.sh", "deliver.sh");
        assert!(readme.contains(&shown) || option == "--api", "{option}: {readme}");

        let server = app.start_with(&["--listen", "127.0.0.1:0"]);
        let url = format!("http://{}", server.address());
        let command = match command.trim_end() {
            script if script.ends_with("deliver.sh") => format!("{script} {url}"),
            curl => curl.replace("http://127.0.0.1:8080", &url).replace("curl ", "curl -sS "),
        };
        let output = Command::new("sh").args(["-c", &command]).current_dir(app.path()).output().unwrap();
        assert_eq!(printed(&output).trim_end(), reply, "{option}: {command}");
        server.stop();
        let found: Vec<String> = app.query(&format!("SELECT CAST(({sql}) AS TEXT)"));
        assert_eq!(found, [row], "{option}");
    }
}

#[test]
fn a_folder_that_is_not_empty_is_left_alone() {
    let app = App::bare(&[("shop/mine.txt", "mine")]);
    let output = app.run(&["new", "shop"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert_eq!(printed(&output), "tollgate: shop is not empty: choose a new folder, or an empty one\n");
    assert_eq!(fs::read_dir(app.path().join("shop")).unwrap().count(), 1);
    app.succeed(&["new", "deeper/shop"]);
    assert_eq!(app.run(&["new", "deeper/shop"]).status.code(), Some(2), "it is not empty any more");
    let output = app.run(&["new", "shop/mine.txt"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert_eq!(fs::read_to_string(app.path().join("shop/mine.txt")).unwrap(), "mine");
}
