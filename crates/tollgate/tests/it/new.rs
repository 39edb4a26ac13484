//! `tollgate new`: the new app passes its tests and is served.

use std::fs;

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
