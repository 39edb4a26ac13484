//! Common mistakes of people who know other servers: one fault each, with the text to write.

use super::*;

const REPLY: &str = "[[route]]\npath = \"/\"\nreply = {}\n";

#[test]
fn a_section_with_too_few_brackets_is_one_fault() {
    check(
        "[route]\npath = \"/\"\nreply = {}\n",
        &["t.toml:1:1: [route] is one table, allowed is a list of sections [[route]]: write [[route]]"],
    );
    check(
        &format!("{REPLY}[app]\npath = \"/a\"\ndir = \".\"\n"),
        &[
            "t.toml:4:1: [app] is one table, allowed is a list of sections [[app]]: write [[app]]",
            "t.toml:6:7: dir in [[app]] is \".\", which has no app.toml: looked for ./app.toml",
        ],
    );
}

#[test]
fn a_section_with_too_many_brackets_is_one_fault_and_its_name_is_known() {
    check(
        "[[server]]\nbacklog = 5\n",
        &["t.toml:1:1: [[server]] is a list of tables, allowed is one table: write [server]"],
    );
    let route = "[[route]]\npath = \"/\"\ncollect = true\nstream = \"scores\"\n";
    let columns = "columns = [{ name = \"n\", type = \"int\" }]\n";
    check(
        &format!("[[stream.scores]]\n{columns}{route}"),
        &["t.toml:1:1: [[stream.scores]] is a list of tables, allowed is one table: write [stream.scores]"],
    );
    check(
        &format!("[[stream]]\nname = \"scores\"\n{columns}{route}"),
        &["t.toml:1:1: [stream] has no name in its brackets: write [stream.scores]"],
    );
    check("[[stream]]\n", &["t.toml:1:1: [stream] has no name in its brackets: write [stream.NAME]"]);
    check(
        &format!("[stream]\n{columns}"),
        &["t.toml:1:1: [stream] has no name in its brackets: write [stream.NAME]"],
    );
}

#[test]
fn certificates_under_the_names_of_other_servers_are_one_fault() {
    let write = "write [[certificate]] with file = \"a.pem\" and key_file = \"a.key\"";
    for (section, [file, key]) in [
        ("[server]", ["tls_cert", "tls_key"]),
        ("[server]", ["ssl_certificate", "ssl_certificate_key"]),
        ("[tls]", ["cert", "key"]),
    ] {
        let listen = "[server]\nlisten = [{ address = \"127.0.0.1:0\", tls = true }]\n";
        let section_line = if section == "[server]" { String::new() } else { format!("{section}\n") };
        let line = if section == "[server]" { 3 } else { 4 };
        check(
            &format!("{listen}{section_line}{file} = \"a.pem\"\n{key} = \"a.key\"\n{REPLY}"),
            &[&format!("t.toml:{line}:1: unknown key \"{file}\" in {section}: {write}")],
        );
    }
    check(
        "[server]\nlisten = [{ address = \"127.0.0.1:0\", tls = true, cert = \"a.pem\" }]\n",
        &["t.toml:2:50: unknown key \"cert\" in listen of [server]: write [[certificate]] with \
           file = \"a.pem\" and key_file = \"key.pem\""],
    );
}

#[test]
fn a_certificate_with_a_key_of_another_name_is_read_nevertheless() {
    let dir = super::backends::with_certificates();
    let text = "[server]\nlisten = [{ address = \"127.0.0.1:0\", tls = true }]\n[[certificate]]\n\
                ssl_certificate = \"me.pem\"\nkey_file = \"me.key\"\n";
    let faults = resolve(&dir.path().join("t.toml"), text, &env).unwrap_err().to_string();
    assert!(faults.ends_with(
        "t.toml:4:1: unknown key \"ssl_certificate\" in [[certificate]]: write file = \"me.pem\""
    ));
    assert_eq!(faults.lines().count(), 1, "{faults}");
}

#[test]
fn a_segment_in_the_syntax_of_other_servers_is_one_fault_with_the_path_to_write() {
    for (path, meant) in [
        ("/users/:id", "/users/{id}"),
        ("/users/:id/posts/:post", "/users/{id}/posts/{post}"),
        ("/users/<id>", "/users/{id}"),
        ("/files/{*rest}", "/files/*"),
        ("/files/{rest...}", "/files/*"),
    ] {
        let segment = path.split('/').find(|segment| segment.contains([':', '<', '*', '.'])).unwrap();
        check(
            &format!("[[route]]\npath = \"{path}\"\nreply = {{}}\n"),
            &[&format!(
                "t.toml:2:8: segment \"{segment}\" of path \"{path}\" is no capture: write path = \"{meant}\""
            )],
        );
    }
    check("[[route]]\npath = \"/a:b/:/c::d\"\nreply = {}\n", &[]);
}

#[test]
fn a_port_alone_is_one_fault_with_the_address_to_write() {
    let near = "allowed is an IP address and a port: write \"127.0.0.1:8080\", or \"0.0.0.0:8080\" for all \
                interfaces";
    for text in ["8080", ":8080", "localhost:8080"] {
        check(
            &format!("[server]\nlisten = [\"{text}\"]\n"),
            &[&format!("t.toml:2:11: listen has \"{text}\", {near}")],
        );
    }
    check(
        "[server]\nlisten = [\"*:8080\"]\n",
        &["t.toml:2:11: listen has \"*:8080\", allowed is an IP address and a port: write \"0.0.0.0:8080\""],
    );
    check(
        "[server]\nlisten = 8080\n",
        &["t.toml:2:10: listen in [server] is the integer 8080, allowed is a list: write \
           listen = [\"127.0.0.1:8080\"]"],
    );
    check(
        "[server]\nport = 80\nhost = \"0.0.0.0\"\n",
        &["t.toml:2:1: unknown key \"port\" in [server]: write listen = [\"0.0.0.0:80\"] in [server]"],
    );
    check(
        &format!("port = 9000\n{REPLY}"),
        &["t.toml:1:1: unknown key \"port\" in the file: write listen = [\"127.0.0.1:9000\"] in [server]"],
    );
}

#[test]
fn a_rate_limit_without_its_table_is_one_fault() {
    for (text, rate) in [("100/s", "100/s"), ("100r/s", "100/s"), ("10/minute", "10/m"), ("5 / hour", "5/h")]
    {
        check(
            &format!("{REPLY}rate_limit = \"{text}\"\n"),
            &[&format!(
                "t.toml:4:14: rate_limit in [[route]] is \"{text}\", allowed is a table: write \
                 rate_limit = {{ rate = \"{rate}\" }}"
            )],
        );
    }
    check(
        &format!("{REPLY}rate_limit = \"many\"\n"),
        &["t.toml:4:14: rate_limit in [[route]] is the string \"many\", allowed is a table \
           { rate = \"100/s\", ... }, or a list of such tables"],
    );
}

#[test]
fn a_single_value_in_place_of_a_list_is_one_fault_with_the_list_to_write() {
    check(
        &format!("{REPLY}methods = \"GET\"\n"),
        &["t.toml:4:11: methods in [[route]] is the string \"GET\", allowed is a list: write \
           methods = [\"GET\"]"],
    );
    check(
        "[backend.a]\nurls = \"http://127.0.0.1:9000\"\n[[route]]\npath = \"/\"\nproxy = \"a\"\n",
        &[
            "t.toml:2:8: urls in [backend.a] is the string \"http://127.0.0.1:9000\", allowed is a list: write \
           urls = [\"http://127.0.0.1:9000\"]",
        ],
    );
    check(
        &format!("{REPLY}before = \"a.luau\"\n"),
        &["t.toml:4:10: before in [[route]] is the string \"a.luau\", allowed is a list: write \
           before = [\"a.luau\"]"],
    );
}
