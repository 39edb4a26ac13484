//! Tests of loading: files that can be loaded, and files that `require` finds.

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
    check("return 5", "returned a number");
    check("return {}", "without a method");
    check("return { Get = print }", "did you mean \"GET\"?");
    check("return { GET = 1 }", "GET = a number");
    check("return { print }", "key of type number");
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
    assert!(
        error.to_string().ends_with("none.luau cannot be read: No such file or directory (os error 2)"),
        "{error}"
    );
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
fn a_host_knows_what_it_read_by_file_and_digest() {
    let app = App::new();
    let file = app.file("main.luau", "return require('lib/a')");
    let sources = |text: &str| {
        app.file("lib/a.luau", text);
        let host = Host::new(HostOptions::default()).unwrap();
        host.load(&file, app.root(), &RecordFields::default()).unwrap();
        host.sources()
    };
    let first = sources("return print");
    let names: Vec<_> = first.iter().map(|source| source.file.file_name().unwrap()).collect();
    assert_eq!(names, ["main.luau", "a.luau"]);
    assert_eq!(sources("return print"), first);
    let other = sources("return error");
    assert_eq!(other[0], first[0]);
    assert_ne!(other[1], first[1]);
}

#[test]
fn an_app_knows_where_it_is_mounted() {
    let mounted = App::with(HostOptions { base: "/a b/shop".to_owned(), ..HostOptions::default() });
    assert_eq!(mounted.text("return tollgate.app.base"), "/a b/shop");
    assert_eq!(mounted.text("return tollgate.app.url('/cart?x=1#y')"), "/a%20b/shop/cart?x=1#y");
    assert_eq!(mounted.text("return tollgate.app.below('/a b/shop/cart')"), "/cart");
    for outside in ["/a b/shopping/cart", "/a b/shop", "/cart", ""] {
        let below = format!("return tostring(tollgate.app.below('{outside}'))");
        assert_eq!(mounted.text(&below), "nil", "{outside}");
    }
    let whole = App::new();
    assert_eq!(whole.text("return '<' .. tollgate.app.base .. tollgate.app.url('/cart') .. '>'"), "</cart>");
    assert_eq!(whole.text("return tollgate.app.below('/cart')"), "/cart");
}

#[test]
fn a_url_of_an_app_never_leads_to_another_server() {
    let whole = App::new();
    let mounted = App::with(HostOptions { base: "/shop".to_owned(), ..HostOptions::default() });
    for wrong in [
        "''",
        "'cart'",
        "'//evil.example/'",
        "'/\\\\evil.example/'",
        "'/a b'",
        "'/\\r\\n'",
        "'/\u{e9}'",
        "7",
        "nil",
    ] {
        let error = whole.error(&format!("return tollgate.app.url({wrong})"));
        assert!(error.contains("path of tollgate.app.url"), "{wrong}: {error}");
    }
    assert_eq!(mounted.text("return tollgate.app.url('//evil.example/')"), "/shop//evil.example/");
    assert!(mounted.error("return tollgate.app.bse").contains("did you mean \"base\""));
}
