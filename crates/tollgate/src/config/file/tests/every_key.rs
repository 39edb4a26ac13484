//! A file with every key: each key of the tables is read, and printed.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::super::super::changes::Change;
use super::super::super::key::Reload;
use super::super::super::sections::{Keys, sections};
use super::auth::auth_files;
use super::backends::{openssl, with_certificates};
use super::*;

const EVERY_KEY: &str = include_str!("every_key.toml");
/// Sections whose tables have names.
const NAMED: [&str; 6] = ["auth", "backend", "database", "ship", "sink", "stream"];
/// Each route prints the access of its scripts.
const PRINTED_BY_ROUTES: [&str; 3] = ["file_dir", "upload_dir", "databases"];

/// Makes a folder with all files that the configuration names.
fn folder() -> tempfile::TempDir {
    let dir = with_certificates();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("pub")).unwrap();
    fs::create_dir_all(path("app")).unwrap();
    // Only a numbered list has version 2, which RFC 5280 requires.
    let list = "[ca]\ndefault_ca = d\n[d]\ndatabase = index\ncrlnumber = number\ndefault_md = sha256\ndefault_crl_days = 2\n\
                crl_extensions = e\n[e]\nauthorityKeyIdentifier = keyid\n";
    fs::write(path("number"), "01\n").unwrap();
    fs::write(path("list.cnf"), list).unwrap();
    fs::write(path("index"), "").unwrap();
    openssl(dir.path(), "ca -gencrl -config list.cnf -keyfile ca.key -cert ca.pem -out revoked.pem");
    auth_files(dir.path());
    fs::write(path("order.rnc"), "element order { empty }").unwrap();
    fs::write(path("token"), "").unwrap();
    fs::write(path("secret"), "").unwrap();
    fs::write(path("after.sql"), "select 1;\n").unwrap();
    fs::write(path("app/app.toml"), "[[route]]\npath = \"/\"\nreply = {}\n").unwrap();
    dir
}

/// Returns the keys of a file, each with the path of its section in front.
fn keys_of(text: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    collect("", &text.parse().unwrap(), &mut keys);
    keys
}

fn collect(path: &str, table: &Table, keys: &mut BTreeSet<String>) {
    for (name, value) in table {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Table(named) if path.is_empty() && NAMED.contains(&name.as_str()) => {
                named.values().filter_map(Value::as_table).for_each(|table| collect(name, table, keys));
            }
            Value::Table(table) => collect(&key, table, keys),
            Value::Array(items) => {
                items.iter().filter_map(Value::as_table).for_each(|table| collect(&key, table, keys));
            }
            _ => {}
        }
        keys.insert(key);
    }
}

/// Returns the keys of all tables. `[limits]` is a section of an `app.toml`.
fn known_keys() -> Vec<String> {
    let sections = sections().into_iter().filter(|section| section.path != "limits");
    let keys = |Keys { path, facts }: Keys| facts.into_iter().map(move |key| format!("{path}.{}", key.name));
    sections.flat_map(keys).collect()
}

#[test]
fn every_key_of_the_tables_is_read_and_printed() {
    let dir = folder();
    let config = resolve(&dir.path().join("t.toml"), EVERY_KEY, &env).unwrap();
    let (written, printed) = (keys_of(EVERY_KEY), keys_of(&config.to_string()));
    for key in known_keys() {
        assert!(written.contains(&key), "every_key.toml has no {key}");
        let is_of_script = key.split('.').rev().nth(1) == Some("script");
        let is_printed_by_routes = PRINTED_BY_ROUTES.iter().any(|name| key.ends_with(name)) && is_of_script;
        assert_eq!(printed.contains(&key), !is_printed_by_routes, "{key} in\n{config}");
    }
}

#[test]
fn what_is_printed_of_every_key_reads_back_to_the_same() {
    let dir = folder();
    let file = dir.path().join("t.toml");
    let config = resolve(&file, EVERY_KEY, &env).unwrap();
    // The password of a database is hidden, so the printed text is incomplete.
    let printed = config.to_string();
    assert_eq!(resolve(&file, &printed, &env).unwrap().to_string(), printed);
}

#[test]
fn a_reload_keeps_every_key_that_needs_a_restart() {
    let dir = folder();
    let file = dir.path().join("t.toml");
    let present = resolve(&file, "[load]\nin_server = false\n", &env).unwrap();
    let mut new = resolve(&file, EVERY_KEY, &env).unwrap();
    let restart = |new: &Config| -> BTreeSet<_> {
        let changes = present.changes_to(new).into_iter().filter(Change::needs_restart);
        changes.map(|change| change.key).collect()
    };
    let of_section = |Keys { path, facts }: Keys| {
        let keys = facts.into_iter().filter(|key| key.reload == Reload::Restart);
        keys.map(move |key| format!("{path}.{}", key.name))
    };
    let expected: BTreeSet<_> = sections().into_iter().flat_map(of_section).collect();
    assert_eq!(restart(&new), expected);
    new.keep_fixed(&present);
    assert_eq!(restart(&new), BTreeSet::new());
}
