//! Tests of the examples in `docs/reference/scripting.md` and `docs/how-to/port.md`. Each example must load,
//! and must return the replies that it states.
//!
//! An example is a block indented by four blanks, whose last statement is an unindented `return`. A line `--
//! GET /path?query -> 200 text` in the example states a request and its reply. A final `...` stands for any
//! further text.

use std::rc::Rc;

use tollgate_http::route::MatchedPath;
use tollgate_script::{HostOptions, RecordFields};

use crate::app::{App, finish, request, text};

const DOCUMENTS: [&str; 2] = [
    include_str!("../../../../docs/reference/scripting.md"),
    include_str!("../../../../docs/how-to/port.md"),
];

/// Returns the blocks of a document, without their indentation.
fn blocks(document: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in document.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(code), Some(block)) => *block += &format!("{code}\n"),
            (None, Some(block)) if line.is_empty() && !block.is_empty() => block.push('\n'),
            (None, Some(block)) if !block.is_empty() => blocks.push(String::new()),
            _ => {}
        }
    }
    blocks
}

/// Returns the name of a module, which is in its first line.
fn module_name(block: &str) -> Option<&str> {
    block.lines().next()?.strip_prefix("-- ").filter(|name| name.ends_with(".luau"))
}

fn is_script(block: &str) -> bool {
    let returns = |line: &str| line.starts_with("return function") || line.starts_with("return {");
    module_name(block).is_none() && block.lines().any(returns)
}

/// Returns the requests and replies that a script states: method, target, status, text.
fn promises(script: &str) -> Vec<(String, String, u16, String)> {
    let promise = |line: &str| {
        let (request, reply) = line.trim().strip_prefix("-- ")?.split_once(" -> ")?;
        let (method, target) = request.split_once(' ')?;
        let (status, text) = reply.split_once(' ').unwrap_or((reply, ""));
        Some((method.to_owned(), target.to_owned(), status.parse().ok()?, text.to_owned()))
    };
    script.lines().filter_map(promise).collect()
}

fn app() -> App {
    let app = App::with(HostOptions { env: vec!["PATH".to_owned()], ..HostOptions::default() });
    app.file("order.rnc", "element order { attribute id { text } }");
    for document in DOCUMENTS {
        for block in blocks(document) {
            if let Some(name) = module_name(&block) {
                app.file(name, &block);
            }
        }
    }
    app
}

#[test]
fn every_example_loads_and_keeps_what_it_promises() {
    let app = app();
    let scripts: Vec<_> = DOCUMENTS.into_iter().flat_map(blocks).filter(|block| is_script(block)).collect();
    assert!(scripts.len() > 12, "{}", scripts.len());
    let mut kept = 0;
    for script in scripts {
        // `PATH` replaces the name, because every environment has this variable.
        let script = script.replace("HOOK_SECRET", "PATH");
        let handler =
            app.load(&script, &RecordFields::default()).unwrap_or_else(|error| panic!("{error}\n{script}"));
        for (method, target, status, expect) in promises(&script) {
            let head = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n\r\n");
            let mut request = Rc::into_inner(request(&head, b"")).unwrap();
            request.place = MatchedPath::default();
            let outcome = finish(handler.call(Rc::new(request)));
            let outcome = outcome.unwrap_or_else(|error| panic!("{method} {target}: {error}\n{script}"));
            assert_eq!(outcome.status, status, "{method} {target}\n{script}");
            let found = text(&outcome);
            match expect.strip_suffix("...") {
                Some(front) => assert!(found.starts_with(front), "{method} {target}: {found}\n{script}"),
                None => assert_eq!(found, expect, "{method} {target}\n{script}"),
            }
            kept += 1;
        }
    }
    assert!(kept > 10, "{kept}");
}
