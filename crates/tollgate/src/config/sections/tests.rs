//! The tables of the documents agree with the tables of keys in the code, and no absent feature exists.

// The documents are pages of `docs/reference`. `absent.md` lists the absent features, with the names that
// they would have. A test fails if a key, a command or a script function has such a name.

use std::collections::BTreeMap;
use std::path::Path;

use clap::CommandFactory;
use tollgate_load::{
    CatalogPlace, IcebergOptions, ParquetOptions, PostgresOptions, PostgresUrl, SinkKind, SinkOptions,
};
use tollgate_log::LogOptions;
use tollgate_server::{
    BackendOptions, CapacityLimits, ConnectionLimits, FilesSpec, HostOptions, PRESETS, ProxySpec, RequestIds,
    SpoolOptions, Traces,
};

use super::super::key::Reload;
use super::*;
use crate::cli::Cli;

const CONFIGURATION: &str = include_str!("../../../../../docs/reference/configuration.md");
/// All documents with tables of keys.
const DOCUMENTS: [(&str, &str); 7] = [
    ("configuration.md", CONFIGURATION),
    ("apps.md", include_str!("../../../../../docs/reference/apps.md")),
    ("backends.md", include_str!("../../../../../docs/reference/backends.md")),
    ("collect.md", include_str!("../../../../../docs/reference/collect.md")),
    ("files.md", include_str!("../../../../../docs/reference/files.md")),
    ("xml-validation.md", include_str!("../../../../../docs/reference/xml-validation.md")),
    ("routing.md", include_str!("../../../../../docs/reference/routing.md")),
];
/// The page that lists absent features.
const ABSENT: &str = include_str!("../../../../../docs/reference/absent.md");
/// The beginning of each table's header. The title of a section follows, then a backtick.
const HEADER: &str = "| key of `";
/// Tables with a single key, or with the keys of another table. The documents explain them in words.
const UNLISTED: [&str; 3] = ["stream.ack", "stream.columns.redact", "app.script"];

/// A row of a table, by the words above its columns.
type Row<'a> = BTreeMap<&'a str, &'a str>;

/// Returns the title of a section in the documents.
fn title(path: &str) -> String {
    match path.rsplit('.').next().unwrap_or(path) {
        name if name != path => name.to_owned(),
        "route" | "app" | "certificate" => format!("[[{path}]]"),
        "auth" | "backend" | "database" | "ship" | "sink" | "stream" => format!("[{path}.NAME]"),
        _ => format!("[{path}]"),
    }
}

/// Returns the rows of all tables of a section in a document.
fn rows<'a>(document: &'a str, title: &str) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with(&format!("{HEADER}{title}` |")) {
            continue;
        }
        let header = cells(line);
        let table = lines.by_ref().skip(1).take_while(|line| line.starts_with('|'));
        rows.extend(table.map(|line| {
            let mut row: Row<'_> = header.iter().copied().zip(cells(line)).collect();
            row.insert("key", cells(line)[0]);
            row
        }));
    }
    rows
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split(" | ").map(str::trim).collect()
}

/// Returns a text without its links.
fn plain(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    plain.replace(['[', ']'], "")
}

/// Returns the differences between a document's tables of a section and the keys.
fn differences(document: &str, Keys { path, facts }: &Keys) -> Vec<String> {
    let rows = rows(document, &title(path));
    let name = |row: &Row<'_>| row["key"].split('`').nth(1).unwrap_or_default().to_owned();
    let names: Vec<_> = rows.iter().map(name).collect();
    let mut found = Vec::new();
    for key in facts {
        match names.iter().filter(|name| *name == key.name).count() {
            1 => {}
            count => found.push(format!("{} has {count} rows", key.name)),
        }
    }
    for (row, name) in rows.iter().zip(&names) {
        let Some(key) = facts.iter().find(|key| key.name == name) else {
            found.push(format!("{name} is no key"));
            continue;
        };
        let mut check = |column: &str, expected: String, is_right: fn(&str, &str) -> bool| {
            let Some(cell) = row.get(column) else { return };
            if !is_right(&plain(cell), &plain(&expected)) {
                found.push(format!("{column} of {name} is {cell:?}, expected {expected:?}"));
            }
        };
        check("default", key.default_cell(), |cell, expected| cell == expected);
        // A document may add further conditions after the bounds.
        check("allowed", key.allowed_cell(), |cell, expected| cell.starts_with(expected));
        let text = key.text();
        check("meaning", text.trim_end_matches('.').to_owned(), |cell, text| cell.starts_with(text));
    }
    found
}

#[test]
fn each_table_has_the_keys_of_its_section_with_their_defaults_and_bounds() {
    for section in sections() {
        let tables = DOCUMENTS
            .iter()
            .filter(|(_, text)| text.contains(&format!("{HEADER}{}` |", title(section.path))));
        let tables: Vec<_> = tables.collect();
        assert_eq!(tables.is_empty(), UNLISTED.contains(&section.path), "no table for {}", section.path);
        for (name, text) in tables {
            let found = differences(text, &section);
            assert!(found.is_empty(), "{}, tables of {}:\n{}", name, title(section.path), found.join("\n"));
        }
    }
}

#[test]
fn each_table_of_the_configuration_is_that_of_a_section() {
    let titles: Vec<_> = sections().iter().map(|section| title(section.path)).collect();
    for line in CONFIGURATION.lines().filter(|line| line.starts_with("| key")) {
        let found = line.strip_prefix(HEADER).and_then(|rest| rest.split('`').next());
        assert!(found.is_some_and(|found| titles.iter().any(|title| title == found)), "{line}");
    }
}

#[test]
fn the_documents_have_the_presets_of_signatures() {
    let (_, routing) = DOCUMENTS.iter().find(|(name, _)| *name == "routing.md").unwrap();
    let allowed = PRESETS.map(|preset| format!("`{}`", preset.name)).join(" ");
    assert!(routing.contains(&format!("| `preset` | none | {allowed} |")), "{allowed}");
    for preset in PRESETS {
        let time = match (preset.timestamp_header, preset.timestamp_item) {
            (Some(header), _) => format!("`{header}`"),
            (None, Some(item)) => format!("item `{item}`"),
            (None, None) => "none".to_owned(),
        };
        let (separator, encoding) = (preset.separator.name(), preset.encoding.name());
        let prefix = if preset.prefix.is_empty() { "\"\"" } else { preset.prefix };
        let row = format!(
            "| `{}` | `{}` | `{separator}` | `{prefix}` | `{encoding}` | `{}` | `{}` | {time} |",
            preset.name,
            preset.header,
            preset.algorithm.name(),
            preset.message
        );
        assert!(routing.contains(&row), "{row}");
    }
}

#[test]
fn the_configuration_names_the_keys_that_need_a_restart() {
    let sections = sections();
    let server = sections.iter().find(|section| section.path == "server").unwrap();
    let restart = server.facts.iter().filter(|key| key.reload == Reload::Restart);
    let names: Vec<_> = restart.map(|key| format!("`{}`", key.name)).collect();
    let (last, first) = names.split_last().unwrap();
    let sentence = format!(
        "These keys need a restart: {} and {last}, and all keys of `[admin]`, `[log]` and `[load]`",
        first.join(", ")
    );
    assert!(CONFIGURATION.replace('\n', " ").contains(&sentence), "{sentence}");
}

#[test]
fn a_changed_default_a_missing_key_and_an_unknown_one_are_found() {
    let mut section = sections().into_iter().find(|section| section.path == "load").unwrap();
    section.facts.truncate(2);
    let table = |rows: &str| format!("| key of `[load]` | default | allowed | meaning |\n| --- |\n{rows}");
    let (in_server, lag_max) = (section.facts[0], section.facts[1]);
    let row = |key: &Facts, default: &str| {
        format!("| `{}` | {default} | {} | {} |\n", key.name, key.allowed_cell(), key.text())
    };
    let (first, second) = (row(in_server, &in_server.default_cell()), row(lag_max, &lag_max.default_cell()));
    let check = |rows: String, expected: &[&str]| assert_eq!(differences(&table(&rows), &section), expected);
    check(format!("{first}{second}"), &[]);
    check(first.clone(), &["lag_max has 0 rows"]);
    check(format!("{first}{second}{second}"), &["lag_max has 2 rows"]);
    check(
        format!("{first}{}", row(lag_max, "`\"2m\"`")),
        &[r#"default of lag_max is "`\"2m\"`", expected "`\"1m\"`""#],
    );
    check(format!("{first}{second}| `lag_min` | | | |\n"), &["lag_min is no key"]);
    let longer = second.replace("100ms to 24h", "100ms to 48h");
    check(format!("{first}{longer}"), &[r#"allowed of lag_max is "100ms to 48h", expected "100ms to 24h""#]);
}

#[test]
fn options_without_a_configuration_have_the_defaults_of_the_tables() {
    fn check<O>(keys: &[Key<O>], options: &O) {
        for key in keys.iter().filter(|key| !key.facts.is_read_by_hand) {
            if let (Some(found), Some(default)) = (key.number(options), key.facts.default_number()) {
                assert_eq!(found, default, "{}", key.facts.name);
            }
        }
    }
    let folder = Path::new("folder");
    let mut server = server::unwritten(folder).options;
    server.connection = ConnectionLimits::default();
    server.capacity = CapacityLimits::default();
    server.spool = SpoolOptions::new(folder.into());
    (server.request_ids, server.traces, server.workers) = (RequestIds::default(), Traces::default(), 0);
    check(server::KEYS, &server);
    check(log::KEYS, &LogOptions::new(folder));
    check(script::KEYS, &HostOptions::default());
    check(backend::KEYS, &BackendOptions::new("b", Vec::new()));
    check(files::KEYS, &FilesSpec::new(folder.into()));
    check(proxy::KEYS, &ProxySpec::new(0));
    let kind = SinkKind::Sqlite { path: folder.into() };
    check(sink::KEYS, &SinkOptions::new("s".to_owned(), kind));
    let url = PostgresUrl::parse("host=a user=b").unwrap();
    check(postgres::KEYS, &PostgresOptions::new(url));
    check(parquet::PARQUET_KEYS, &ParquetOptions::in_folder(folder));
    let catalog = CatalogPlace::Sqlite(folder.into());
    check(iceberg::ICEBERG_KEYS, &IcebergOptions::new(ParquetOptions::in_folder(folder), catalog));
}

#[test]
fn entries_of_the_tables_are_sound() {
    for Keys { path, facts } in sections() {
        for key in &facts {
            let name = format!("{} of {path}", key.name);
            assert!(key.text().ends_with('.'), "{name}: its text is a sentence");
            assert!(key.has_sound_default(), "{name}: its default is allowed");
            let is_known = |limit: &str| facts.iter().any(|other| other.name == limit);
            assert!(key.limit.is_none_or(is_known), "{name}: its limit is a key of the section");
        }
    }
}

/// Returns whether a name of the page of absent features exists: a key or a section of the configuration, a
/// command, or a function of scripts.
fn exists(name: &str) -> bool {
    let (name, owner) = name.split_once(" of ").unwrap_or((name, ""));
    let (name, owner) = (name.trim_matches('`'), owner.trim_matches('`'));
    let sections = sections();
    if !owner.is_empty() {
        let mut owners = sections.iter().filter(|section| title(section.path) == owner).peekable();
        assert!(owners.peek().is_some(), "no section {owner}");
        return owners.any(|section| section.facts.iter().any(|key| key.name == name));
    }
    if name.starts_with('[') {
        let path = name.trim_matches(['[', ']']).trim_end_matches(".NAME");
        return sections.iter().any(|section| section.path == path);
    }
    if let Some(path) = name.strip_prefix("tollgate.") {
        return has_function(path);
    }
    let words =
        name.strip_prefix("tollgate ").unwrap_or_else(|| panic!("{name}: no key, command or function"));
    has_command(words)
}

/// Returns whether the declarations of scripts have `tollgate.PATH`.
fn has_function(path: &str) -> bool {
    const DECLARATIONS: &str = include_str!("../../new/tollgate.d.luau");
    let (library, name) = path.split_once('.').unwrap_or(("", path));
    let library: String =
        library.char_indices().map(|(at, c)| if at == 0 { c.to_ascii_uppercase() } else { c }).collect();
    let header = format!("export type Tollgate{library} = {{");
    let (_, fields) = DECLARATIONS.split_once(&header).unwrap_or_else(|| panic!("no type Tollgate{library}"));
    let fields = fields.lines().take_while(|line| *line != "}");
    fields.map(str::trim_start).any(|field| field.split(':').next() == Some(name))
}

/// Returns whether the command line knows these words: commands, then perhaps an option.
fn has_command(words: &str) -> bool {
    let root = Cli::command();
    let mut command = &root;
    for word in words.split(' ') {
        if let Some(option) = word.strip_prefix("--") {
            return command.get_arguments().any(|argument| argument.get_long() == Some(option));
        }
        let Some(found) = command.find_subcommand(word) else { return false };
        command = found;
    }
    true
}

#[test]
fn no_feature_of_the_page_of_absent_features_exists() {
    let rows = ABSENT.lines().filter(|line| line.starts_with("| ")).map(cells);
    let rows: Vec<_> = rows.filter(|row| !["absent", "---"].contains(&row[0])).collect();
    assert!(rows.len() > 40, "{} rows", rows.len());
    for row in rows {
        let [feature, _, names] = row[..] else { panic!("three columns: {row:?}") };
        for name in names.split("; ").filter(|name| *name != "-") {
            assert!(!exists(name), "docs/reference/absent.md lists {feature:?}, but {name} exists");
        }
    }
}

#[test]
fn names_of_present_features_are_found() {
    let present = [
        "`backlog` of `[server]`",
        "`mode` of `listen`",
        "`urls` of `[backend.NAME]`",
        "`[[route]]`",
        "`tollgate log repair`",
        "`tollgate serve --dev`",
        "`tollgate.fetch`",
        "`tollgate.crypto.random`",
    ];
    for name in present {
        assert!(exists(name), "{name}");
    }
}
