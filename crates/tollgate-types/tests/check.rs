//! Tests of files with correct and wrong types.

// clippy recognises test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tollgate_types::{CheckError, check};

const DECLARATIONS: &str =
    "export type Item = { name: string }\ndeclare shop: { find: (id: number) -> Item? }\n";

/// Checks files of a folder. Returns the faults, with paths relative to the folder.
fn faults(files: &[(&str, &str)], checked: &[&str]) -> Vec<String> {
    let folder = folder(files);
    let paths: Vec<_> = checked.iter().map(|name| folder.path().join(name)).collect();
    let faults = check(DECLARATIONS, folder.path(), &paths).unwrap();
    let name = |file: &Path| file.strip_prefix(folder.path()).unwrap().display().to_string();
    let shown = faults
        .iter()
        .map(|fault| format!("{}:{}:{}: {}", name(&fault.file), fault.line, fault.column, fault.text));
    shown.collect()
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

#[test]
fn declared_types_are_checked_and_faults_have_their_places() {
    let script =
        "--!strict\nlocal item: Item? = shop.find(1)\nreturn shop.find(\"1\"), item.name, shop.fnd(1)\n";
    let found = faults(&[("a.luau", script)], &["a.luau"]);
    let expected = [
        "a.luau:3:18: Expected this to be 'number', but got 'string'",
        "a.luau:3:24: Value of type 'Item?' could be nil",
        "a.luau:3:35: Key 'fnd' not found in table '{ find: (number) -> Item? }'",
    ];
    assert_eq!(found, expected);
    let right =
        "--!strict\nlocal item = shop.find(1)\nreturn if item then item.name else integer.create(1)\n";
    assert_eq!(faults(&[("a.luau", right)], &["a.luau"]), [""; 0]);
}

#[test]
fn a_file_says_how_strictly_it_is_checked() {
    let text = "return function(x) local y: string = x.z + 1 return string.upper(7) end";
    let files = [
        ("strict.luau", &*format!("--!strict\n{text}")),
        ("nocheck.luau", &*format!("--!nocheck\n{text}")),
        ("none.luau", text),
    ];
    let names = ["strict.luau", "nocheck.luau", "none.luau"];
    let found = faults(&files, &names).join("\n");
    assert!(found.contains("strict.luau:2:38: ") && found.contains("none.luau:1:66: "), "{found}");
    assert!(!found.contains("nocheck"), "{found}");
}

#[test]
fn integers_are_what_their_library_takes_however_strict_a_file_is() {
    let sum = "return integer.add(integer.create(1), integer.create(1))\n";
    for head in ["", "--!nonstrict\n", "--!strict\n"] {
        assert_eq!(faults(&[("a.luau", &format!("{head}{sum}"))], &["a.luau"]), [""; 0]);
    }
    let found = faults(&[("a.luau", "return integer.add(integer.create(1), 1)\n")], &["a.luau"]);
    assert!(found.len() == 1 && found[0].contains("'integer.add' expects to get a integer"), "{found:?}");
}

#[test]
fn modules_are_found_below_the_root_and_have_their_types() {
    let files = [
        ("lib/tax.luau", "--!strict\nreturn { rate = 0.19, name = nil :: string? }"),
        (
            "lib/all/init.luau",
            "--!strict\nlocal x: number = \"x\"\nreturn { tax = require(\"./lib/tax\"), x = x }",
        ),
        ("a.luau", "--!strict\nreturn require(\"lib/all\").tax.rate .. require(\"lib/tax\").nmae"),
        ("b.luau", "--!strict\nreturn require(\"lib/none\"), require(\"../outside\"), require(\"lib/tax\")"),
    ];
    let expected = [
        "a.luau:2:39: Key 'nmae' not found in table '{ name: string?, rate: number }'",
        "b.luau:2:8: Unknown require: lib/none.luau",
        "b.luau:2:29: Unknown require: ../outside.luau",
        "lib/all/init.luau:2:19: Expected this to be 'number', but got 'string'",
    ];
    assert_eq!(faults(&files, &["b.luau", "a.luau", "lib/tax.luau"]), expected);
}

#[test]
fn a_file_that_is_no_luau_or_not_there_is_a_fault() {
    let found = faults(&[("a.luau", "return {\n  x = = 1,\n}")], &["a.luau", "none.luau"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("a.luau:2:7: "), "{found:?}");
    assert_eq!(found[1], "none.luau:1:1: the file cannot be read");
}

#[test]
fn declarations_with_faults_are_told() {
    let folder = folder(&[]);
    for (text, told) in
        [("declare shop: {", "shop"), ("declare shop: Nothing", "line 1: Unknown type 'Nothing'")]
    {
        let Err(CheckError::Declarations(found)) = check(text, folder.path(), &[]) else {
            panic!("{text} holds");
        };
        assert!(!found.is_empty() && (told == "shop" || found == told), "{found}");
    }
}

#[test]
fn deep_nesting_is_a_fault_and_no_crash() {
    let deep = format!("--!strict\nreturn {}1{}", "{".repeat(100_000), "}".repeat(100_000));
    let sum = format!("--!strict\nreturn 1{}", " + 1".repeat(100_000));
    for text in [&deep, &sum] {
        let found = faults(&[("a.luau", text)], &["a.luau"]);
        assert!(!found.is_empty() && found.iter().all(|fault| fault.starts_with("a.luau:")), "{found:?}");
    }
}
