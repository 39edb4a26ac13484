//! `tollgate check --types`: the findings of the type checker, and that the declarations fit the functions.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::program::{App, printed};

const CONFIG: &str = r#"
[[route]]
path = "/score"
script = "score.luau"
before = ["auth.luau"]
after = ["headers.luau"]
"#;

const AUTH: &str = r#"--!strict
local before: Before = function(req)
  if not req.cookies.session then
    return 401
  end
  req.ctx.user = req.cookies.session
end
return before
"#;

const HEADERS: &str = r#"--!strict
local after: After = function(_, reply)
  if reply.status == 200 then
    return { headers = { ["x-frame-options"] = "DENY" } }
  end
end
return after
"#;

const RIGHT: &str = r#"--!strict
local tax = require("lib/tax")
return {
  GET = function(req: Request): Reply
    local net = tonumber(req.query.net)
    if not net then
      return 422
    elseif net > 1000 then
      return tollgate.redirect(tollgate.app.url("/expensive"), 303)
    elseif net < 0 then
      return tollgate.pass
    end
    return { json = { gross = tax.gross(net) }, headers = { ["x-net"] = net }, record = { net = net } }
  end,
  POST = function(req: Request): Reply
    local form, problem = req:form()
    if not form then
      return { status = 400, json = { error = problem } }
    end
    local photo = form.photo
    if type(photo) ~= "table" then
      return { status = 422, body = "photo is no file" }
    end
    local order = req:json()
    local id = order.id
    local next = if type(id) == "integer" then integer.add(id, integer.create(1)) else nil
    return { xml = { tag = "order", attr = { id = 7 }, { tag = "line", "text" } }, record = { next = next } }
  end,
}
"#;

const WRONG: &str = r#"--!strict
local tax = require("lib/tax")
return {
  GET = function(req: Request): Reply
    local net: number = tonumber(req.query.net)
    local gross = tax.gross(req.qurey.net)
    tollgate.shared.increment("calls")
    tollgate.sleep("1")
    return { json = { net, gross, tollgate.crypto.sha256(1) }, staus = 201 }
  end,
}
"#;

const TAX: &str =
    "--!strict\nreturn {\n  gross = function(net: number): number\n    return net * 1.19\n  end,\n}\n";

const TEST: &str = r#"--!strict
return {
  ["it is taxed"] = function(t: Test)
    t:clock("2026-01-31T12:00:00Z")
    local reply = t:request{ path = "/score?net=1", headers = { cookie = "session=1" } }
    t.equal(reply.status, 200)
  end,
}
"#;

fn app(score: &str) -> App {
    let files = [
        ("score.luau", score),
        ("auth.luau", AUTH),
        ("headers.luau", HEADERS),
        ("lib/tax.luau", TAX),
        ("tests/score.luau", TEST),
    ];
    App::new(CONFIG, &files)
}

/// Checks an app. Returns the exit code and the output, without the path of the folder.
fn check(app: &App) -> (i32, String) {
    let output = app.run(&["check", "--types"]);
    let text = printed(&output).replace(&format!("{}/", app.path().display()), "");
    (output.status.code().unwrap(), text)
}

#[test]
fn scripts_whose_types_hold_are_right() {
    let app = app(RIGHT);
    let (code, text) = check(&app);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("ok: 1 route, "), "{text}");
}

#[test]
fn misspelt_names_and_wrong_types_are_reported_with_their_place() {
    let app = app(WRONG);
    assert_eq!(app.run(&["check"]).status.code(), Some(0), "types are checked where that is asked for");
    let (code, text) = check(&app);
    let lines: Vec<_> = text.lines().collect();
    let expected = [
        "score.luau:5:25: Expected this to be 'number', but got 'number?'",
        "score.luau:6:29: Key 'qurey' not found in table 'Request'",
        "score.luau:7:5: Key 'increment' not found in table 'TollgateShared'",
        "score.luau:8:20: Expected this to be 'number', but got 'string'",
        "score.luau:9:58: Expected this to be 'buffer | string', but got 'number'",
        "score.luau:9:72: Expected this to be '\"no field of a reply\"', but got 'number'",
    ];
    assert_eq!(code, 2, "{text}");
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
}

#[test]
fn modules_and_tests_are_checked_and_files_that_are_not_strict_less() {
    let app = app(RIGHT);
    app.write(
        "lib/tax.luau",
        "--!strict\nreturn { gross = function(net: number): number return tostring(net) end }",
    );
    app.write("tests/score.luau", "--!strict\nreturn { [\"it\"] = function(t: Test) t:ask{} end }");
    app.write("auth.luau", "return function(req) local x: number = req.query.x end");
    let (code, text) = check(&app);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("lib/tax.luau:2:48: Expected this to be 'number', but got 'string'"), "{text}");
    assert!(text.contains("tests/score.luau:2:37: Key 'ask' not found in table 'Test'"), "{text}");
    assert!(!text.contains("auth.luau"), "{text}");
}

/// Each file of the examples and of a new app begins with `--!strict`.
#[test]
fn the_examples_and_a_new_app_hold() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let app = App::bare(&[]);
    app.succeed(&["new", "new"]);
    let mut folders = vec![app.path().join("new")];
    folders.extend(fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()));
    assert!(folders.len() > 5, "{folders:?}");
    for folder in folders {
        let output = app.run(&["check", "--types", folder.to_str().unwrap()]);
        assert!(output.status.success(), "{}: {}", folder.display(), printed(&output));
    }
}

#[test]
fn the_declarations_name_what_is_there_and_nothing_else() {
    let app = App::bare(&[]);
    app.succeed(&["new", "."]);
    app.write("tests/score.luau", LIST);
    let output = app.run(&["test"]);
    let listed = printed(&output);
    assert!(output.status.success(), "{listed}");
    let there: BTreeSet<_> = listed
        .lines()
        .filter_map(|line| line.split_once("has ")?.1.split(' ').next())
        .map(str::to_owned)
        .collect();
    let types = fs::read_to_string(app.path().join("tollgate.d.luau")).unwrap();
    assert!(there.len() > 60, "{there:?}");
    assert_eq!(declared(&types), there);
    let uses = there.iter().map(|name| format!("local _: any = tollgate.{name}\n"));
    app.write(
        "score.luau",
        &format!("--!strict\n{}return function() return 200 end\n", uses.collect::<String>()),
    );
    app.write("tests/score.luau", "--!strict\nreturn {}\n");
    app.succeed(&["check", "--types"]);
}

/// Returns the names below `tollgate` in a definition file.
fn declared(types: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for block in types.split("export type Tollgate").skip(1) {
        let (library, fields) = block.split_once(" = {\n").unwrap();
        let fields = fields.split_once("\n}\n").unwrap().0.lines();
        for field in fields.filter_map(|line| line.strip_prefix("  ")?.split_once(": ")) {
            let before =
                if library.is_empty() { String::new() } else { format!("{}.", library.to_lowercase()) };
            names.insert(format!("{before}{}", field.0));
        }
    }
    names
}

const LIST: &str = r#"
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
