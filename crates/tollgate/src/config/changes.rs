//! The differences between two configurations, key by key. The printed texts of both are compared.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_load::PostgresUrl;
use tollgate_server::{AppSpec, VerifyKeys};
use toml::{Table, Value};

use super::Config;
use super::key::Reload;
use super::sections::{Keys, sections};

/// Sections of named tables. A reload adds or removes such a table as a whole.
const NAMED: [&str; 6] = ["auth", "backend", "database", "ship", "sink", "stream"];

/// The value of a part that is added or removed as a whole: an app, a route, a named table.
const THERE: &str = "there";

/// One key that differs between two configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The name of the key: `section.key`. The section of a route includes its host, path and methods.
    pub(crate) key: String,
    /// The value in the present configuration. `None`: this configuration does not have the key.
    pub(crate) present: Option<String>,
    /// The value in the new configuration. `None`: this configuration does not have the key.
    pub(crate) new: Option<String>,
}

impl Change {
    /// Returns whether the new value waits for a restart.
    pub(crate) fn needs_restart(&self) -> bool {
        let is_this = |section: &str, name: &str| {
            let rest = self.key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'));
            rest.and_then(|rest| rest.split('.').next()) == Some(name)
        };
        sections().iter().any(|Keys { path, facts }| {
            facts.iter().any(|key| key.reload == Reload::Restart && is_this(path, key.name))
        })
    }

    /// Returns whether the values are hidden, because they may be secrets. All hidden keys are in tables of a
    /// route.
    fn is_hidden(&self) -> bool {
        sections().iter().any(|Keys { path, facts }| {
            let table = path.strip_prefix("route").unwrap_or(path);
            let is_this = |name: &str| self.key.contains(&format!("{table}.{name}"));
            facts.iter().any(|key| key.is_hidden && is_this(key.name))
        })
    }

    /// Leaves out the keys of a part that is added or removed as a whole, because that is one change.
    pub(crate) fn in_short(changes: Vec<Self>) -> Vec<Self> {
        let is_whole = |change: &&Self| change.is_of_a_whole();
        let whole: Vec<_> = changes.iter().filter(is_whole).map(|change| change.key.clone()).collect();
        let is_part = |change: &Self| whole.iter().any(|app| change.is_below(app));
        changes.into_iter().filter(|change| !is_part(change)).collect()
    }

    /// Returns whether this change adds or removes a part as a whole.
    fn is_of_a_whole(&self) -> bool {
        [&self.present, &self.new].into_iter().flatten().any(|value| value == THERE)
    }

    fn is_below(&self, whole: &str) -> bool {
        let has_parts_behind_blanks = whole.starts_with("app ") || whole.starts_with("stream.");
        let is_part =
            |rest: &str| rest.starts_with('.') || (has_parts_behind_blanks && rest.starts_with(' '));
        self.key.strip_prefix(whole).is_some_and(is_part)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.present, &self.new) {
            (Some(present), Some(new)) if present == new || self.is_hidden() => {
                write!(f, "{}: changed", self.key)
            }
            (Some(present), Some(new)) => write!(f, "{}: {present} -> {new}", self.key),
            (None, Some(_)) => write!(f, "{}: added", self.key),
            _ => write!(f, "{}: removed", self.key),
        }
    }
}

impl Config {
    /// Returns the differences to another configuration, by key. The texts of scripts are not compared.
    pub(crate) fn changes_to(&self, new: &Self) -> Vec<Change> {
        let (connections, new_connections) = (self.connections(), new.connections());
        // Printed connections hide their passwords, so the passwords are compared here.
        let has_another_password = |key: &String| {
            let both = connections.get(key).zip(new_connections.get(key));
            both.is_some_and(|(present, new)| present != new)
        };
        let (secrets, new_secrets) = (self.secrets(), new.secrets());
        // Printed secrets are names of variables and files, so the secrets are compared here.
        let has_another_secret = |key: &String| secrets.get(key) != new_secrets.get(key);
        let (present, new) = (self.keys(), new.keys());
        let keys = present.keys().chain(new.keys().filter(|key| !present.contains_key(*key)));
        let differing = keys.filter(|key| {
            present.get(*key) != new.get(*key) || has_another_password(key) || has_another_secret(key)
        });
        let change = |key: &String| Change {
            key: key.clone(),
            present: present.get(key).cloned(),
            new: new.get(key).cloned(),
        };
        let mut changes: Vec<_> = differing.map(change).collect();
        changes.sort_by(|one, other| one.key.cmp(&other.key));
        Change::in_short(changes)
    }

    /// Copies two kinds of values from the present configuration: values that only a restart changes, and
    /// `tollgate.shared`. The shared values of an app stay with its mount.
    pub(crate) fn keep_fixed(&mut self, present: &Self) {
        self.server.listen = present.server.listen.clone();
        if self.server.listen.iter().any(|spec| spec.tls) && self.server.tls.is_none() {
            self.server.tls.clone_from(&present.server.tls);
        }
        self.server.backlog = present.server.backlog;
        self.server.workers = present.server.workers;
        self.server.spool = present.server.spool.clone();
        self.server.access_queue = std::sync::Arc::clone(&present.server.access_queue);
        self.server.span_queue = std::sync::Arc::clone(&present.server.span_queue);
        self.server.script.shared = std::sync::Arc::clone(&present.server.script.shared);
        self.admin = present.admin.clone();
        self.server.dev.clone_from(&present.server.dev);
        for app in &mut self.server.apps {
            let same = |known: &&AppSpec| (&known.base, &known.host) == (&app.base, &app.host);
            if let Some(known) = present.server.apps.iter().find(same) {
                app.script.shared = std::sync::Arc::clone(&known.script.shared);
            }
        }
        self.log = present.log.clone();
        self.load = present.load;
    }

    /// Returns the connections to PostgreSQL, by key.
    fn connections(&self) -> BTreeMap<String, &PostgresUrl> {
        let sinks = self.sinks.iter().filter_map(|sink| {
            let (key, url) = sink.connection()?;
            Some((format!("sink.{}.{key}", sink.name()), url))
        });
        let databases = self.databases.iter().filter_map(|database| {
            Some((format!("database.{}.postgres", database.name()), database.connection()?))
        });
        sinks.chain(databases).collect()
    }

    /// Returns the keys of signatures that are not shown, by the key of the configuration.
    fn secrets(&self) -> BTreeMap<String, &VerifyKeys> {
        let mut secrets = BTreeMap::new();
        let mut gather = |above: &str, printed: &Table, app: Option<usize>| {
            let printed = printed.get("route").and_then(Value::as_array).into_iter().flatten();
            let routes = self.server.routes.iter().filter(|route| route.app == app);
            for (table, route) in printed.filter_map(Value::as_table).zip(routes) {
                let name = format!("{above}{}.verify.secret", route_name(table));
                secrets.extend(route.verify.as_ref().map(|verify| (name, &verify.keys)));
            }
        };
        gather("", &self.to_string().parse().unwrap_or_default(), None);
        for (index, mount) in self.mounts.iter().enumerate() {
            let above = format!("{} ", mount.name());
            gather(&above, &self.app_text(index).parse().unwrap_or_default(), Some(index));
        }
        secrets
    }

    /// Returns every key with its value.
    fn keys(&self) -> BTreeMap<String, String> {
        let mut keys = BTreeMap::new();
        // A configuration prints text that reads back without faults.
        let printed: Table = self.to_string().parse().unwrap_or_default();
        gather_sections("", &printed, &mut keys);
        let apps = printed.get("app").and_then(Value::as_array).into_iter().flatten();
        for (index, (mount, written)) in self.mounts.iter().zip(apps).enumerate() {
            let name = mount.name();
            keys.insert(name.clone(), THERE.to_owned());
            if let Some(written) = written.as_table() {
                gather(&name, written, &mut keys);
            }
            let text: Table = self.app_text(index).parse().unwrap_or_default();
            gather_sections(&format!("{name} "), &text, &mut keys);
        }
        keys
    }
}

fn gather_sections(above: &str, printed: &Table, keys: &mut BTreeMap<String, String>) {
    for (section, value) in printed {
        match value {
            Value::Table(table) => {
                let name = format!("{above}{section}");
                if NAMED.contains(&section.as_str()) {
                    keys.extend(table.keys().map(|one| (format!("{name}.{one}"), THERE.to_owned())));
                }
                gather(&name, table, keys);
            }
            Value::Array(routes) if section == "route" => {
                for route in routes.iter().filter_map(Value::as_table) {
                    let name = format!("{above}{}", route_name(route));
                    keys.insert(name.clone(), THERE.to_owned());
                    gather(&name, route, keys);
                }
            }
            Value::Array(certificates) if section == "certificate" => {
                let files = certificates.iter().filter_map(|certificate| certificate.get("file"));
                for file in files.map(shown) {
                    keys.insert(format!("certificate {file}"), THERE.to_owned());
                }
            }
            _ => {}
        }
    }
}

fn gather(above: &str, table: &Table, keys: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let key = format!("{above}.{name}");
        match (name.as_str(), value) {
            (_, Value::Table(below)) => gather(&key, below, keys),
            ("columns", Value::Array(columns)) => gather_columns(above, columns, keys),
            _ => drop(keys.insert(key, shown(value))),
        }
    }
}

fn gather_columns(stream: &str, columns: &[Value], keys: &mut BTreeMap<String, String>) {
    for column in columns.iter().filter_map(Value::as_table) {
        let text = |key| column.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut value = format!("{} from {}", text("type"), text("from"));
        for (rule, set) in column.iter().filter(|(key, _)| !["name", "type", "from"].contains(&key.as_str()))
        {
            value.push_str(&format!(", {rule} = {}", shown(set)));
        }
        keys.insert(format!("{stream} column {:?}", text("name")), value);
    }
}

/// Names a route by its host, path and methods. If the host, the path or the methods differ, it is another
/// route.
fn route_name(route: &Table) -> String {
    let parts = ["host", "path", "methods"].into_iter().filter_map(|key| route.get(key));
    format!("route {}", parts.map(shown).collect::<Vec<_>>().join(" "))
}

fn shown(value: &Value) -> String {
    value.to_string().trim_end().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn config(text: &str) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        // The folder differs from call to call. The paths are therefore written as fixed absolute paths.
        let fixed = "[log]\ndir = \"/var/log/t\"\n[sink.main]\nsqlite = \"/var/t.sqlite\"\n";
        fs::write(&file, format!("{fixed}{text}")).unwrap();
        let mut config = Config::load(&file).unwrap();
        config.server.spool.dir = "/var/spool/t".into();
        config
    }

    fn changes(present: &str, new: &str) -> Vec<String> {
        let changes = config(present).changes_to(&config(new));
        let shown =
            |change: &Change| format!("{}{change}", if change.needs_restart() { "restart: " } else { "" });
        changes.iter().map(shown).collect()
    }

    #[test]
    fn each_key_that_differs_is_named_with_both_values() {
        let stream = |columns: &str| format!("[stream.s]\ncolumns = [{columns}]\n");
        let (n, m) = (r#"{ name = "n", type = "int" }"#, r#"{ name = "m", type = "text" }"#);
        let route = |path: &str, status: u16| {
            format!("[[route]]\npath = \"{path}\"\nreply = {{ status = {status} }}\n")
        };
        assert_eq!(changes(&route("/a", 200), &route("/a", 200)), [""; 0]);
        assert_eq!(
            changes(
                &format!("[server]\nworkers = 2\nhead_timeout = \"10s\"\n{}", stream(n)),
                &format!("[server]\nworkers = 3\nhead_timeout = \"5s\"\n{}", stream(&format!("{n}, {m}"))),
            ),
            [
                r#"server.head_timeout: "10s" -> "5s""#,
                "restart: server.workers: 2 -> 3",
                r#"stream.s column "m": added"#,
            ]
        );
        let found = changes(&(route("/a", 200) + &route("/b", 200)), &(route("/b", 204) + &route("/c", 200)));
        assert_eq!((found.len(), found[0].as_str()), (3, r#"route "/a": removed"#));
        assert_eq!(found[1..], [r#"route "/b".reply.status: 200 -> 204"#, r#"route "/c": added"#]);
    }

    #[test]
    fn a_named_table_that_comes_or_goes_is_one_change_and_one_that_stays_shows_its_keys() {
        let stream = |name: &str| {
            format!(
                "[stream.{name}]\ncolumns = [{{ name = \"n\", type = \"int\" }}, {{ name = \"m\", type = \"int\" }}]\n"
            )
        };
        let backend =
            |name: &str, port: u16| format!("[backend.{name}]\nurls = [\"http://127.0.0.1:{port}\"]\n");
        assert_eq!(
            changes(
                &format!("{}{}{}", backend("a", 1), backend("app", 1), stream("s")),
                &format!("{}{}{}", backend("app", 2), backend("b", 1), stream("st")),
            ),
            [
                "backend.a: removed",
                r#"backend.app.urls: ["http://127.0.0.1:1"] -> ["http://127.0.0.1:2"]"#,
                "backend.b: added",
                "stream.s: removed",
                "stream.st: added",
            ]
        );
    }

    #[test]
    fn possible_secrets_are_not_shown() {
        let config = |key: &str, body: &str| {
            format!(
                "[backend.b]\nurls = [\"http://127.0.0.1:1\"]\n[[route]]\npath = \"/p\"\n\
                 proxy = {{ backend = \"b\", set_headers = {{ X-Key = \"{key}\" }} }}\n\
                 [[route]]\npath = \"/r\"\nreply = {{ body = \"{body}\" }}\n\
                 [[route]]\npath = \"/f/*\"\nfiles = {{ dir = \"/usr\", headers = {{ X-Key = \"{key}\" }} }}\n"
            )
        };
        let found = changes(&config("old-secret", "old-secret"), &config("new-secret", "new-secret"));
        let expected = [
            r#"route "/f/*".files.headers.X-Key: changed"#,
            r#"route "/p".proxy.set_headers.X-Key: changed"#,
            r#"route "/r".reply.body: changed"#,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn another_password_is_told_and_neither_is_shown() {
        let config = |password: &str| {
            let url = format!("\"postgres://me:{password}@db/app\"");
            format!(
                "[sink.other]\npostgres = {url}\n[sink.tables.iceberg]\ncatalog = {url}\nwarehouse = \"/lake\"\n\
                 [database.d]\npostgres = {url}\n[database.e]\nsqlite = \"/var/e\"\n"
            )
        };
        assert_eq!(changes(&config("old-secret"), &config("old-secret")), [""; 0]);
        let expected = [
            "database.d.postgres: changed",
            "sink.other.postgres: changed",
            "sink.tables.iceberg.catalog: changed",
        ];
        assert_eq!(changes(&config("old-secret"), &config("new-secret")), expected);
    }

    #[test]
    fn a_rule_of_a_column_is_told() {
        let stream =
            |rule: &str| format!("[stream.s]\ncolumns = [{{ name = \"n\", type = \"text\"{rule} }}]\n");
        let (small, hash) = (", max = \"1KiB\"", ", redact = { hash = \"${PATH}\" }");
        let found = changes(&stream(small), &stream(hash));
        assert_eq!(found.len(), 1, "{found:?}");
        let (present, new) = found[0].split_once(" -> ").unwrap();
        assert!(present.starts_with("stream.s column \"n\": text from "), "{present}");
        assert!(present.ends_with(", max = \"1KiB\", over = \"reject\""), "{present}");
        assert!(new.ends_with(", redact = { hash = \"${PATH}\" }"), "{new}");
    }

    #[test]
    fn admin_log_and_load_need_a_restart_with_all_their_keys() {
        for Keys { path, facts } in sections() {
            let is_whole = ["admin", "log", "load"].contains(&path);
            let swapped = facts.iter().filter(|key| key.reload == Reload::Swapped);
            let swapped: Vec<_> = swapped.map(|key| key.name).collect();
            assert!(!is_whole || swapped.is_empty(), "keep_fixed keeps [{path}] whole: {swapped:?}");
        }
    }

    #[test]
    fn keys_that_need_a_restart_stay_as_they_are() {
        let present = config("[server]\nworkers = 2\nlisten = [\"127.0.0.1:1\"]\n");
        let mut new = config("[server]\nworkers = 3\nbacklog = 7\nfields_max = 9\n");
        new.log.retain *= 2;
        new.server.spool.bytes_max *= 2;
        new.server.spool.encrypt = true;
        new.sinks[0].options.name = "other".to_owned();
        let restart = |new: &Config| {
            let changes = present.changes_to(new);
            let keys = changes.into_iter().filter(Change::needs_restart).map(|change| change.key);
            keys.collect::<Vec<_>>()
        };
        let expected = [
            "log.retain",
            "server.backlog",
            "server.listen",
            "server.spool_bytes_max",
            "server.spool_encrypt",
            "server.workers",
        ];
        assert_eq!(restart(&new), expected);
        new.keep_fixed(&present);
        assert_eq!(restart(&new), [""; 0]);
        // One sink is removed, one is added, and one key of the server changes.
        assert_eq!(present.changes_to(&new).len(), 3);
    }
}
