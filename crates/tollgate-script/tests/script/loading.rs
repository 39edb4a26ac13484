//! Which files are taken, and what `require` finds.

use std::os::unix::fs::symlink;

use tollgate_http::Method;
use tollgate_script::{Host, HostOptions, LoadError, RecordFields};

use crate::app::{App, finish, get, handler_of, text};

fn refused(app: &App, source: &str) -> LoadError {
    app.load(source, &RecordFields::default()).err().expect(source)
}

#[test]
fn methods_of_a_table_are_its_keys_and_get_brings_head() {
    let app = App::new();
    assert!(app.handler("return function() end").methods().is_none());
    let methods = app.handler("return { GET = print, POST = print }").methods().unwrap();
    let expect = [Method::Get, Method::Head, Method::Post];
    Method::ALL.iter().for_each(|&method| assert_eq!(methods.contains(method), expect.contains(&method)));
}

#[test]
fn a_chunk_that_returns_no_handler_is_refused() {
    let app = App::new();
    let check = |source: &str, part: &str| {
        let error = refused(&app, source);
        assert!(matches!(error, LoadError::Shape { .. }), "{source}: {error}");
        assert!(
            error.to_string().contains(part) && error.to_string().contains("main.luau"),
            "{source}: {error}"
        );
    };
    check("", "returned nothing");
    check("return 5", "integer");
    check("return {}", "without a method");
    check("return { Get = print }", "did you mean \"GET\"?");
    check("return { GET = 1 }", "GET = a");
    check("return { print }", "key of type");
}

#[test]
fn syntax_errors_and_failures_name_file_and_line() {
    let app = App::new();
    match refused(&app, "local x = 1\nlocal = 2\n") {
        LoadError::Syntax { file, line, text } => {
            assert!(file.ends_with("main.luau"));
            assert_eq!(line, 2, "{text}");
        }
        other => panic!("{other}"),
    }
    match refused(&app, "\n\nerror('no')") {
        LoadError::Run { line, error, .. } => assert_eq!(line, 3, "{error}"),
        other => panic!("{other}"),
    }
    let bytecode = refused(&app, "\u{6}\u{3}abc");
    assert!(matches!(bytecode, LoadError::Syntax { .. }), "{bytecode}");
    let error =
        app.host.load(&app.root().join("none.luau"), app.root(), &RecordFields::default()).err().unwrap();
    assert!(matches!(error, LoadError::Read { .. }));
}

#[test]
fn require_finds_modules_below_the_root_and_runs_each_once() {
    let app = App::new();
    app.file("lib/counter.luau", "local n = 0 return { next = function() n += 1 return n end }");
    app.file("lib/deep/init.luau", "return require('lib/counter').next");
    let body = "local a, b, c = require('lib/counter'), require('./lib/counter'), require('lib/deep') \
                a.next() b.next() return tostring(c())";
    assert_eq!(app.text(body), "3");
}

#[test]
fn require_refuses_what_leaves_the_root() {
    let app = App::new();
    let outside = app.file("outside/secret.luau", "return 1");
    let root = app.root().join("root");
    std::fs::create_dir(&root).unwrap();
    symlink(outside, root.join("link.luau")).unwrap();
    let main = root.join("main.luau");
    for name in [
        "../outside/secret",
        "/etc/passwd",
        "link",
        "a/../../outside/secret",
        "",
        ".",
        "none",
        "a\\0b",
        "..\\\\x",
    ] {
        std::fs::write(&main, handler_of(&format!("return require('{name}')"))).unwrap();
        let handler = app.host.load(&main, &root, &RecordFields::default()).unwrap();
        let error = finish(handler.call(get("/"))).unwrap_err().to_string();
        assert!(error.contains("require \""), "{name}: {error}");
        assert!(error.contains("main.luau:2"), "{name}: {error}");
    }
    let error = app.host.load(&root.join("link.luau"), &root, &RecordFields::default()).err().unwrap();
    assert!(matches!(error, LoadError::Outside { .. }), "{error}");
}

#[test]
fn a_circle_of_modules_is_named() {
    let app = App::new();
    app.file("a.luau", "return require('b')");
    app.file("b.luau", "return require('a')");
    let error = refused(&app, "require('a') return print").to_string();
    assert!(error.contains("a.luau -> b.luau -> a.luau"), "{error}");
    app.file("b.luau", "return 5");
    assert!(app.load("require('a') return print", &RecordFields::default()).is_ok());
}

#[test]
fn a_module_that_fails_is_named_and_can_be_mended() {
    let app = App::new();
    app.file("bad.luau", "local x =\n\n");
    let error = refused(&app, "require('bad') return print").to_string();
    assert!(error.contains("bad.luau"), "{error}");
    app.file("bad.luau", "return nil");
    assert!(refused(&app, "require('bad') return print").to_string().contains("returned nothing"));
    app.file("bad.luau", "return 'good'");
    let handler = app.handler("local good = require('bad') return function() return good end");
    assert_eq!(text(&finish(handler.call(get("/"))).unwrap()), "good");
}

#[test]
fn hosts_that_loaded_the_same_texts_have_the_same_digest() {
    let app = App::new();
    let file = app.file("main.luau", "return require('lib/a')");
    let digest = |text: &str| {
        app.file("lib/a.luau", text);
        let host = Host::new(HostOptions::default()).unwrap();
        host.load(&file, app.root(), &RecordFields::default()).unwrap();
        host.sources_digest()
    };
    let first = digest("return print");
    assert_eq!(digest("return print"), first);
    assert_ne!(digest("return error"), first);
}
