//! The text that a start prints on stdout: the addresses, and two commands to copy.

use std::borrow::Cow;
use std::process::ExitCode;

use rusqlite::Connection;
use tollgate_server::{BoundAddress, Method, RouteSpec, methods_of};

use crate::admin::AdminServer;
use crate::config::Config;
use crate::print::to_stdout;

pub(super) fn announce(
    config: &Config,
    addresses: &[BoundAddress],
    admin: Option<&AdminServer>,
    https: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let url = addresses.iter().find(|address| address.tcp().is_some()).map(ToString::to_string);
    let example = example(&config.server.routes);
    let is_sqlite = config.sinks.first().is_some_and(|sink| sink.sqlite().is_some());
    to_stdout(|out| {
        for address in addresses {
            writeln!(out, "serving {address}  ({})", config.source.display())?;
        }
        if let Some(line) = example.and_then(|route| try_line(config, route, url.as_deref()?)) {
            writeln!(out, "  try     {line}")?;
        }
        if let Some(line) = https {
            writeln!(out, "  https   {line}")?;
        }
        if is_sqlite && let Some(stream) = example.and_then(|route| config.server.streams.get(route.stream?))
        {
            let words = [program(), config.source.display().to_string(), statement(&stream.name)];
            let [program, source, statement] = words.each_ref().map(|word| shell_word(word));
            writeln!(out, "  rows    {program} sql --config {source} {statement}")?;
        }
        if let Some(admin) = admin {
            writeln!(out, "  admin   {}", admin.bound())?;
        }
        writeln!(out, "  stop    Ctrl-C")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the best example of a recorded route. A route without parameters in its path is preferred.
fn example(routes: &[RouteSpec]) -> Option<&RouteSpec> {
    let recorded = || routes.iter().filter(|route| route.stream.is_some());
    recorded().find(|route| !route.path.contains(['{', '*'])).or_else(|| recorded().next())
}

/// Returns a command that sends a request to a route, with one of its methods.
fn try_line(config: &Config, route: &RouteSpec, url: &str) -> Option<String> {
    if route.host.is_some() || route.path == RouteSpec::ASTERISK {
        return None;
    }
    let segments = route.path.split('/').map(|segment| if segment.starts_with('{') { "1" } else { segment });
    let path = segments.collect::<Vec<_>>().join("/").replace('*', "");
    let methods = methods_of(&config.server, route);
    let takes = |method| methods.is_none_or(|methods| methods.contains(method));
    if takes(Method::Get) {
        return Some(format!("curl {url}{path}"));
    }
    let method = methods?.iter().next()?;
    Some(match method {
        Method::Post => format!("curl -d '{{}}' {url}{path}"),
        method => format!("curl -X {method} -d '{{}}' {url}{path}"),
    })
}

/// Returns a statement that reads some rows of a stream.
fn statement(stream: &str) -> String {
    let table = if is_plain_in_sqlite(stream) { stream } else { &format!("\"{stream}\"") };
    format!("SELECT * FROM {table} LIMIT 10")
}

/// Returns whether SQLite accepts this table name without quotes. SQLite refuses most keywords without
/// quotes.
fn is_plain_in_sqlite(name: &str) -> bool {
    let Ok(connection) = Connection::open_in_memory() else { return false };
    let prepared = connection.prepare(&format!("SELECT * FROM {name}"));
    prepared.is_err_and(|error| error.to_string().starts_with("no such table"))
}

/// Quotes a text as one word for a shell.
fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else if text.contains(['"', '$', '`', '\\', '!']) {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    } else {
        Cow::Owned(format!("\"{text}\""))
    }
}

/// Returns the name with which this program was started.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "tollgate".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_start_names_a_statement_that_sqlite_takes_whatever_the_stream_is_called() {
        assert_eq!(shell_word(&statement("scores")), "\"SELECT * FROM scores LIMIT 10\"");
        assert_eq!(shell_word(&statement("all")), "'SELECT * FROM \"all\" LIMIT 10'");
        for name in ["all", "order", "group", "table", "select", "index", "limit", "key", "scores", "_1"] {
            let database = Connection::open_in_memory().unwrap();
            database.execute(&format!("CREATE TABLE \"{name}\" (n)"), []).unwrap();
            assert!(database.prepare(&statement(name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_word_for_a_shell_is_quoted_where_it_has_to_be() {
        for (text, word) in [
            ("/srv/app/t.toml", "/srv/app/t.toml"),
            ("/srv/my app", "\"/srv/my app\""),
            ("/srv/$HOME", "'/srv/$HOME'"),
            ("it's \"x\"", r#"'it'\''s "x"'"#),
            ("", "\"\""),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }

    #[test]
    fn a_start_names_a_command_that_the_route_takes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("any.luau"), "return function() return 200 end").unwrap();
        fs::write(dir.path().join("put.luau"), "return { PUT = function() return 200 end }").unwrap();
        let line = |routes: &[&str]| {
            let file = dir.path().join("t.toml");
            let stream = "[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
            let routes: String =
                routes.iter().map(|route| format!("[[route]]\nstream = \"s\"\n{route}\n")).collect();
            fs::write(&file, format!("{stream}{routes}")).unwrap();
            let config = Config::load(&file).unwrap();
            try_line(&config, example(&config.server.routes)?, "http://h")
        };
        let check = |routes: &[&str], expected: &str| assert_eq!(line(routes).as_deref(), Some(expected));
        let any = "path = \"/any\"\nscript = \"any.luau\"";
        let part = "path = \"/of/{x}\"\nscript = \"any.luau\"";
        let put = "path = \"/put\"\nscript = \"put.luau\"";
        let collect = "path = \"/c\"\ncollect = true";
        check(&[any], "curl http://h/any");
        check(&[part, any], "curl http://h/any");
        check(&[part], "curl http://h/of/1");
        check(&[put, any], "curl -X PUT -d '{}' http://h/put");
        check(&[collect], "curl -d '{}' http://h/c");
        check(&[&format!("{any}\nmethods = [\"POST\"]")], "curl -d '{}' http://h/any");
        assert_eq!(line(&[&format!("{any}\nhost = \"h\"")]), None);
    }
}
