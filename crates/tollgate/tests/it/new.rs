//! `tollgate new`: what it makes passes its tests and is served.

use std::fs;

use crate::program::{App, told};

const FILES: [&str; 6] =
    ["README.md", "app.toml", "public/index.html", "score.luau", "tests/score.luau", "tollgate.d.luau"];

#[test]
fn a_new_app_passes_its_tests_and_is_served() {
    let app = App::bare(&[]);
    let text = app.succeed(&["new", "."]);
    assert_eq!(
        text,
        "made an app in .\n  test    tollgate test .\n  serve   tollgate serve .\n  \
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
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert_eq!(
        told(&output),
        "tollgate: shop is not empty: an app is made in a new folder, or an empty one\n"
    );
    assert_eq!(fs::read_dir(app.path().join("shop")).unwrap().count(), 1);
    app.succeed(&["new", "deeper/shop"]);
    assert_eq!(app.run(&["new", "deeper/shop"]).status.code(), Some(2), "it is not empty any more");
    let output = app.run(&["new", "shop/mine.txt"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(fs::read_to_string(app.path().join("shop/mine.txt")).unwrap(), "mine");
}

/// The types of a new app, as a module that Luau compiles: `declare` is for editors alone.
#[test]
fn the_types_for_editors_are_luau_and_name_what_is_there() {
    let app = App::bare(&[]);
    app.succeed(&["new", "."]);
    let types = fs::read_to_string(app.path().join("tollgate.d.luau")).unwrap();
    let (known, declared) = types.split_once("\ndeclare tollgate: ").unwrap();
    app.write("types.luau", &format!("{known}\nlocal _: {declared} = tollgate\nreturn true\n"));
    app.write("tests/score.luau", LIST);
    let output = app.run(&["test"]);
    let names = told(&output);
    assert!(output.status.success(), "{names}");
    let names: Vec<_> =
        names.lines().filter_map(|line| line.split_once("has ")?.1.split(' ').next()).collect();
    assert!(names.len() > 50, "{names:?}");
    for name in names {
        let line = format!(
            "\n{}{}: ",
            if name.contains('.') { "    " } else { "  " },
            name.rsplit('.').next().unwrap()
        );
        assert!(declared.contains(&line), "{name}");
    }
}

const LIST: &str = r#"
assert(require("types"))
return {
  ["what is there is listed"] = function()
    for name, library in tollgate do
      print("has " .. name)
      if type(library) == "table" then
        for inner in library do
          print(`has {name}.{inner}`)
        end
      end
    end
  end,
}
"#;
