//! Options of a PostgreSQL database. Address and connection are read from a text as libpq reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tollgate_tls::Trust;

/// Text shown in place of a password.
const HIDDEN: &str = "***";
/// Keys of the address that this file reads, because the protocol library does not know them.
const TLS_KEYS: [&str; 2] = ["sslmode", "sslrootcert"];

/// Last part of the error about a missing host or user.
const ALLOWED: &str = "needed are both, like \"postgres://USER@HOST/DATABASE\"";

/// Options of a PostgreSQL sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Address of the database.
    pub server: PostgresUrl,
    /// Schema of the bookkeeping tables. If it is missing, the sink creates it. Sinks that share a database
    /// need separate schemas.
    pub schema: String,
    /// Schema of the tables of streams that `tables` does not name.
    pub table_schema: String,
    /// Tables of the streams whose table has another name than the stream.
    pub tables: BTreeMap<String, TableName>,
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// Longest time of one statement, including a COPY.
    pub statement_timeout: Duration,
    /// Longest wait for a lock.
    pub lock_timeout: Duration,
}

impl PostgresOptions {
    /// Returns the option that makes `new` another place for rows and positions. Returns `None` if the place
    /// is the same.
    pub(crate) fn moved_by(&self, new: &Self) -> Option<&'static str> {
        let tables =
            |options: &Self| (options.schema.clone(), options.table_schema.clone(), options.tables.clone());
        if !self.server.is_same_database(&new.server) {
            return Some("another database");
        }
        (tables(self) != tables(new)).then_some("another schema or other tables")
    }

    /// Returns the defaults for a database.
    pub fn new(server: PostgresUrl) -> Self {
        Self {
            server,
            schema: "tollgate".to_owned(),
            table_schema: "public".to_owned(),
            tables: BTreeMap::new(),
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(300),
            lock_timeout: Duration::from_secs(10),
        }
    }

    /// Returns the schema of the tables, quoted for a statement.
    pub(crate) fn quoted_table_schema(&self) -> String {
        quoted(&self.table_schema)
    }

    /// Returns the table of a stream.
    pub(super) fn table_of(&self, stream: &str) -> TableName {
        self.tables
            .get(stream)
            .cloned()
            .unwrap_or_else(|| TableName { schema: self.table_schema.clone(), name: stream.to_owned() })
    }
}

/// Name of a table with its schema, both spelled as in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub name: String,
}

impl TableName {
    /// Parses `table`, `schema.table` or `"My Schema"."my.table"`. Case is kept, quoted or not.
    ///
    /// # Errors
    /// The text has a mistake, which the error names.
    pub fn parse(text: &str, default_schema: &str) -> Result<Self, String> {
        let (first, rest) = identifier(text)?;
        let Some(rest) = rest.strip_prefix('.') else {
            return match rest {
                "" => Ok(Self { schema: default_schema.to_owned(), name: first }),
                rest => Err(format!("found {rest:?} after a name")),
            };
        };
        match identifier(rest)? {
            (name, "") => Ok(Self { schema: first, name }),
            (_, rest) => Err(format!("found {rest:?} after a name")),
        }
    }

    /// Returns the quoted name with its schema, for a statement.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// Splits the first name from the text. The name is in double quotes, or ends at the next dot.
fn identifier(text: &str) -> Result<(String, &str), String> {
    let (name, rest) = match text.strip_prefix('"') {
        None => {
            let (name, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
            (name.to_owned(), rest)
        }
        Some(mut rest) => {
            let mut name = String::new();
            loop {
                let (part, behind) =
                    rest.split_once('"').ok_or("found an opening quote without a closing quote")?;
                name.push_str(part);
                match behind.strip_prefix('"') {
                    Some(behind) => {
                        name.push('"');
                        rest = behind;
                    }
                    None => break (name, behind),
                }
            }
        }
    };
    if name.is_empty() || name.len() > 63 || name.contains('\0') {
        return Err(format!("name {name:?} has {} bytes, allowed are 1 to 63 without U+0000", name.len()));
    }
    Ok((name, rest))
}

/// Quotes a name for a statement.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Address of a database: a URL or a list of `key=value`, as libpq accepts it. `Debug` and `Display` never
/// show the password.
#[derive(Clone)]
pub struct PostgresUrl {
    text: String,
    pub(super) config: Config,
    pub(super) trust: Trust,
    /// PEM file of the trusted authorities. `None`: the authorities of the system.
    pub(super) root_cert: Option<PathBuf>,
}

impl PostgresUrl {
    /// Parses an address.
    ///
    /// # Errors
    /// The text has a mistake. The error names it without the secrets of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (rest, tls) = take_tls_keys(text);
        let find = |key| tls.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        let mut config = Config::from_str(&rest).map_err(|error| chain(&error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!("the address has no host, {ALLOWED}"));
        }
        if config.get_user().is_none() {
            return Err(format!("the address has no user, {ALLOWED}"));
        }
        let root_cert = find("sslrootcert").map(PathBuf::from);
        let mode = find("sslmode");
        let (mode, mut trust) = match mode.as_deref().unwrap_or("prefer") {
            "disable" => (SslMode::Disable, Trust::Anybody),
            "prefer" | "allow" => (SslMode::Prefer, Trust::Anybody),
            "require" => (SslMode::Require, Trust::Anybody),
            "verify-ca" => (SslMode::Require, Trust::Authority),
            "verify-full" => (SslMode::Require, Trust::Host),
            found => {
                return Err(format!(
                    "sslmode is {found:?}, allowed are disable, prefer, require, verify-ca, verify-full"
                ));
            }
        };
        // As in libpq, a configured `sslrootcert` means that the certificate has to be checked.
        if mode == SslMode::Require && trust == Trust::Anybody && root_cert.is_some() {
            trust = Trust::Authority;
        }
        let is_local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        config.ssl_mode(if is_local && config.get_hostaddrs().is_empty() { SslMode::Disable } else { mode });
        Ok(Self { text: text.to_owned(), config, trust, root_cert })
    }

    /// Returns whether both addresses name the same database. Role and options may differ.
    pub(crate) fn is_same_database(&self, other: &Self) -> bool {
        fn place(url: &PostgresUrl) -> (&[Host], &[IpAddr], &[u16], Option<&str>) {
            let config = &url.config;
            let database = config.get_dbname().or(config.get_user());
            (config.get_hosts(), config.get_hostaddrs(), config.get_ports(), database)
        }
        place(self) == place(other)
    }
}

impl PartialEq for PostgresUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PostgresUrl {}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shows `user@host:port/database`, with all hosts.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (config, ports) = (&self.config, self.config.get_ports());
        write!(f, "{}@", config.get_user().unwrap_or_default())?;
        let hosts = config.get_hosts().iter().map(host_text);
        let addresses = config.get_hostaddrs().iter().map(ToString::to_string);
        let hosts: Vec<_> = if config.get_hosts().is_empty() { addresses.collect() } else { hosts.collect() };
        for (index, host) in hosts.iter().enumerate() {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            write!(f, "{}{host}:{port}", if index > 0 { "," } else { "" })?;
        }
        write!(f, "/{}", config.get_dbname().or(config.get_user()).unwrap_or_default())
    }
}

/// Returns the text of a host. If an `@` in the password is not escaped, the host begins with the last part
/// of the password. So only the part after the last `@` is shown.
fn host_text(host: &Host) -> String {
    match host {
        Host::Tcp(host) => host.rsplit('@').next().unwrap_or_default().to_owned(),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// Returns the text of an address for people, with the password hidden.
pub fn hide_password(text: &str) -> String {
    if let Some(at) = text.find("://") {
        let (scheme, rest) = text.split_at(at + 3);
        // A password with an unescaped `@` or `/` is malformed, but must be hidden too. So the password ends
        // at the last `@`.
        let (login, rest) = rest.split_at(rest.rfind('@').unwrap_or(0));
        let login = match login.split_once(':') {
            Some((user, _)) => format!("{user}:{HIDDEN}"),
            None => login.to_owned(),
        };
        return format!("{scheme}{login}{}", hide_pairs(rest, &['&']));
    }
    hide_pairs(text, &[' ', '\t', '\n'])
}

fn hide_pairs(text: &str, separators: &[char]) -> String {
    let Some(at) = text.find("password") else { return text.to_owned() };
    // If the password has quotes or escapes, its end is hard to find. So all text after its beginning is
    // hidden.
    let behind = &text[at..];
    let end = if behind.contains(['\'', '\\']) { None } else { behind.find(separators) };
    format!("{}password={HIDDEN}{}", &text[..at], end.map_or("", |end| &behind[end..]))
}

/// Removes the keys for TLS from the text and returns them.
fn take_tls_keys(text: &str) -> (String, Vec<(String, String)>) {
    let mut taken = Vec::new();
    let mut keep = |pair: &&str| match pair.split_once('=') {
        Some((key, value)) if TLS_KEYS.contains(&key.trim()) => {
            taken.push((key.trim().to_owned(), value.trim_matches('\'').to_owned()));
            false
        }
        _ => true,
    };
    let rest = match text.contains("://").then(|| text.split_once('?')) {
        Some(Some((head, query))) => {
            let kept: Vec<_> = query.split('&').filter(&mut keep).collect();
            format!("{head}{}{}", if kept.is_empty() { "" } else { "?" }, kept.join("&"))
        }
        Some(None) => text.to_owned(),
        None => text.split(' ').filter(&mut keep).collect::<Vec<_>>().join(" "),
    };
    (rest, taken)
}

fn chain(error: &dyn std::error::Error) -> String {
    tollgate_log::join_chain(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for text in [
            "postgres://me:se%2Fcret@db:5433/app?sslmode=require",
            "postgres://me:se/cret@db/app",
            "postgres://me:s@cret@db/app",
            "postgres://me@db/app?password=secret",
            "host=db user=me password=secret dbname=app",
            "host=db user=me password='my secret' dbname=app",
        ] {
            let hidden = hide_password(text);
            assert!(!hidden.contains("cret"), "{hidden}");
            if let Ok(url) = PostgresUrl::parse(text) {
                assert!(!format!("{url} {url:?}").contains("secret"), "{url}");
            }
        }
        assert_eq!(hide_password("postgres://me@db/app"), "postgres://me@db/app");
        assert_eq!(hide_password("${DATABASE_URL}"), "${DATABASE_URL}");
        assert_eq!(
            hide_password("postgres://me:secret@db:5433/app?sslmode=require"),
            "postgres://me:***@db:5433/app?sslmode=require"
        );
    }

    #[test]
    fn tls_is_as_libpq_has_it() {
        let check = |query: &str, mode, trust| {
            let url = PostgresUrl::parse(&format!("postgres://me@db/app{query}")).unwrap();
            assert_eq!((url.config.get_ssl_mode(), url.trust), (mode, trust), "{query}");
        };
        check("", SslMode::Prefer, Trust::Anybody);
        check("?sslmode=disable", SslMode::Disable, Trust::Anybody);
        check("?sslmode=require", SslMode::Require, Trust::Anybody);
        check("?sslmode=require&sslrootcert=/ca.pem", SslMode::Require, Trust::Authority);
        check("?sslmode=verify-ca", SslMode::Require, Trust::Authority);
        check("?connect_timeout=3&sslmode=verify-full", SslMode::Require, Trust::Host);
        let local = PostgresUrl::parse("host=/run/postgresql user=me sslmode=require").unwrap();
        assert_eq!(local.config.get_ssl_mode(), SslMode::Disable);
        let refused = PostgresUrl::parse("postgres://me@db/app?sslmode=yes").unwrap_err();
        assert_eq!(
            refused,
            "sslmode is \"yes\", allowed are disable, prefer, require, verify-ca, verify-full"
        );
    }

    #[test]
    fn tables_are_named_with_and_without_quotes() {
        let check = |text: &str, schema: &str, name: &str| {
            let expected = TableName { schema: schema.to_owned(), name: name.to_owned() };
            assert_eq!(TableName::parse(text, "public").unwrap(), expected);
        };
        check("visits", "public", "visits");
        check("web.Visits", "web", "Visits");
        check("\"my schema\".\"a \"\"b\"\".c\"", "my schema", "a \"b\".c");
        for bad in ["", ".", "a.", "a.b.c", "\"a", "\"a\"b"] {
            assert!(TableName::parse(bad, "public").is_err(), "{bad}");
        }
    }
}
