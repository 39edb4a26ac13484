//! Tests with small crates as text, and their imports.

use std::{io, path::Path};

use super::*;

/// Returns the edges of a crate, as `from -> to: names`.
fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let target = load(files);
    let graph = imports(&target);
    let name = |file: usize| target.files[file].display().to_string();
    let mut edges = Vec::new();
    for from in 0..target.files.len() {
        for (&to, names) in graph.from(from) {
            let names = names.keys().cloned().collect::<Vec<_>>().join(" ");
            edges.push(format!("{} -> {}: {names}", name(from), name(to)));
        }
    }
    edges.sort();
    edges
}

fn load(files: &[(&str, &str)]) -> Target {
    let read = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    Target::load(Path::new(files[0].0), &read).unwrap()
}

#[test]
fn files_that_use_each_other_are_a_cycle() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "use crate::{c, a::A}; pub struct B(Box<A>, c::C);"),
        ("c.rs", "pub struct C;"),
    ];
    assert_eq!(edges(&files), ["a.rs -> b.rs: B", "b.rs -> a.rs: A", "b.rs -> c.rs: C"]);
    assert_eq!(imports(&load(&files)).cycles(), [[1, 2]]);
}

#[test]
fn a_name_behind_reexports_is_an_import_of_the_file_that_defines_it() {
    let files = [
        ("lib.rs", "mod a; mod user; pub use a::Thing as Renamed;"),
        ("a/mod.rs", "mod b; pub use b::{Thing, *};"),
        ("a/b.rs", "mod deep; pub use deep::Thing; pub(super) fn work() {} pub fn seen() {}"),
        ("a/b/deep.rs", "pub struct Thing;"),
        ("user.rs", "use crate::{Renamed, a::seen}; fn f(_: Renamed) { seen() }"),
    ];
    assert_eq!(edges(&files), ["user.rs -> a/b.rs: seen", "user.rs -> a/b/deep.rs: Thing"]);
}

#[test]
fn a_module_that_reexports_a_name_imports_it_if_its_own_code_uses_it() {
    let files = [
        ("lib.rs", "mod a; pub use a::Thing; pub fn make() -> Thing { a::make() }"),
        ("a.rs", "use super::make; pub struct Thing; pub fn make() -> Thing { super::make() }"),
    ];
    assert_eq!(edges(&files), ["a.rs -> lib.rs: make", "lib.rs -> a.rs: Thing make"]);
}

#[test]
fn a_glob_is_an_import_of_the_names_that_are_used() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use super::b::*; fn f() { one(); let two = 2; drop(two) }"),
        ("b.rs", "pub use crate::c::*; pub fn one() {} pub fn three() {}"),
        ("c.rs", "pub const TWO: u8 = 2; pub trait Extends {}"),
        ("d.rs", "use super::c::*; fn f() { 1.extended() }"),
    ];
    assert_eq!(edges(&files), ["a.rs -> b.rs: one", "d.rs -> c.rs: *"]);
}

#[test]
fn a_glob_of_an_enum_is_an_import_of_the_enum() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::Kind::*; fn f() { drop(One) }"),
        ("b.rs", "pub enum Kind { One }"),
    ];
    assert_eq!(edges(&files), ["a.rs -> b.rs: Kind"]);
}

#[test]
fn a_path_in_code_is_an_import() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "fn f(x: crate::b::X) -> u8 { super::c::g::<super::b::Y>() }"),
        ("b.rs", "pub struct X; pub struct Y; impl crate::c::T for X {}"),
        ("c.rs", "pub trait T {} pub fn g<Y>() -> u8 { 0 }"),
    ];
    assert_eq!(edges(&files), ["a.rs -> b.rs: X Y", "a.rs -> c.rs: g", "b.rs -> c.rs: T"]);
}

#[test]
fn a_path_inside_of_a_macro_is_an_import() {
    let in_macro = "b::one(), x.two, ::b::three(), &crate::b::FOUR, five()..six()";
    let in_a = format!("use super::b::{{self, *}}; fn f() {{ vec![{in_macro}] }}");
    let in_b = "pub fn one() {} pub fn two() {} pub fn three() {} pub const FOUR: u8 = 4;";
    let in_b = format!("{in_b} pub fn five() {{}} pub fn six() {{}}");
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", &in_a), ("b.rs", &in_b)];
    assert_eq!(edges(&files), ["a.rs -> b.rs: FOUR five one six"]);
}

#[test]
fn a_path_inside_of_an_attribute_is_an_import() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "/// [super::b::three]\n#[arg(value_parser = super::b::one, default = 2)] struct A;"),
        ("b.rs", "pub fn one() {} pub fn two() {} pub fn three() {}"),
    ];
    assert_eq!(edges(&files), ["a.rs -> b.rs: one"]);
}

#[test]
fn names_that_a_macro_defines_belong_to_the_file_that_calls_it() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use super::b::LOCAL;"),
        ("b.rs", "thread_local! { pub static LOCAL: u8 = 0 }"),
    ];
    assert_eq!(edges(&files), ["a.rs -> b.rs: LOCAL"]);
}

#[test]
fn a_module_and_a_function_of_one_name_are_told_apart() {
    let files = [
        ("lib.rs", "mod check; mod user; pub fn check() {}"),
        ("check.rs", "pub fn run() {}"),
        ("user.rs", "use crate::check; fn f() { check(); check::run() }"),
    ];
    assert_eq!(edges(&files), ["user.rs -> check.rs: run", "user.rs -> lib.rs: check"]);
}

#[test]
fn tests_import_nothing() {
    let files = [
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        ("a.rs", "#[cfg(test)] use super::b::B; #[cfg(test)] mod tests { use super::super::b::B; }"),
        ("b.rs", "pub struct B; impl B { #[cfg(test)] fn f(_: super::a::A) {} }"),
    ];
    assert_eq!(edges(&files), [""; 0]);
}

#[test]
fn declarations_and_other_crates_are_no_imports() {
    let files = [
        ("lib.rs", "mod log; mod a; struct B(::log::Level);"),
        ("log.rs", "pub struct Level;"),
        ("a.rs", "use log::Level; use std::fmt; #[derive(Debug)] struct A(Level, fmt::Error, ::log::Level);"),
    ];
    assert_eq!(edges(&files), [""; 0]);
}

#[test]
fn files_are_found_where_the_compiler_finds_them() {
    let files = [
        ("src/lib.rs", "mod a; #[path = \"elsewhere/x.rs\"] mod y; mod inline { mod z; } use a::b::B;"),
        ("src/a.rs", "pub mod b;"),
        ("src/a/b.rs", "pub struct B; use crate::{y::X, y::beside::W, inline};"),
        ("src/elsewhere/x.rs", "mod beside; pub struct X;"),
        ("src/elsewhere/beside.rs", "pub struct W;"),
        ("src/inline/z.rs", "use super::super::y::X;"),
    ];
    let expected = [
        "src/a/b.rs -> src/elsewhere/beside.rs: W",
        "src/a/b.rs -> src/elsewhere/x.rs: X",
        "src/inline/z.rs -> src/elsewhere/x.rs: X",
        "src/lib.rs -> src/a/b.rs: B",
    ];
    assert_eq!(edges(&files), expected);
}

#[test]
fn a_name_that_reexports_itself_is_not_followed_for_ever() {
    let files = [
        ("lib.rs", "mod a; mod b; use a::X;"),
        ("a.rs", "pub use crate::b::*;"),
        ("b.rs", "pub use crate::a::*;"),
    ];
    assert_eq!(edges(&files), ["lib.rs -> a.rs: X"]);
}
