//! Each fault, compared with its exact text.

use std::fs;

use super::*;

mod apps;
mod auth;
mod backends;
mod collect;
mod every_key;
mod https;
mod mistakes;
mod own_files;
mod paths;
mod printed;
mod routes;
mod ships;
mod sinks;
mod streams;
mod validate;
mod verify;
mod when;

fn app() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.luau"), "return function() return 204 end\n").unwrap();
    dir
}

fn env(name: &str) -> Option<String> {
    match name {
        "SECRET" => return Some("0123456789abcdef".to_owned()),
        "LONG_SECRET" => return Some("0123456789abcdef0123456789abcdef".to_owned()),
        "SHORT" => return Some("0123456789".to_owned()),
        _ => {}
    }
    (name == "TOLLGATE_TEST").then(|| "10.0.0.1:80".to_owned())
}

fn load(text: &str) -> Result<Config, ConfigError> {
    let dir = app();
    resolve(&dir.path().join("t.toml"), text, &env)
}

/// Compares the faults of a text, without the folder.
fn check(text: &str, expected: &[&str]) {
    let dir = app();
    let file = dir.path().join("t.toml");
    let folder = format!("{}/", dir.path().display());
    let found = match resolve(&file, text, &env) {
        Ok(_) => Vec::new(),
        Err(error) => error.faults.iter().map(|fault| fault.to_string().replace(&folder, "")).collect(),
    };
    assert_eq!(found, expected, "{text}");
}

const SCORES: &str = "[stream.scores]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";

#[test]
fn unknown_keys_are_faults_with_the_nearest_known_one() {
    check("[sever]\n", &["t.toml:1:2: unknown key \"sever\" in the file, did you mean \"server\"?"]);
    check(
        "[server]\nbaklog = 1\n",
        &["t.toml:2:1: unknown key \"baklog\" in [server], did you mean \"backlog\"?"],
    );
    check(
        &format!(
            "{SCORES}[[route]]\npath = \"/\"\ncollect = true\nstrem = \"scores\"\nstream = \"scores\"\n"
        ),
        &["t.toml:6:1: unknown key \"strem\" in [[route]], did you mean \"stream\"?"],
    );
    check(
        "[log]\ncompress = true\n",
        &[
            "t.toml:2:1: unknown key \"compress\" in [log], allowed: dir, segment_bytes_max, segment_age_max, \
           sync_age_max, retain, retain_bytes_max, reserve, queue_bytes_max, queue_age_max, transaction_bytes_max, digest, node",
        ],
    );
    check(
        "[queue.billing]\nurls = []\n",
        &[
            "t.toml:1:2: unknown key \"queue\" in the file, allowed: server, tls, certificate, log, admin, access_log, otlp, load, database, script, stream, backend, auth, route, app, sink, ship",
        ],
    );
    check(
        "[stream.s]\ncolumns = [\n  { name = \"n\", typ = \"int\" },\n]\n",
        &[
            "t.toml:3:3: missing key \"type\" in a column of [stream.s]",
            "t.toml:3:17: unknown key \"typ\" in a column of [stream.s], did you mean \"type\"?",
        ],
    );
    check(
        "[[route]]\npath = \"/\"\nreply = { stat = 1 }\n",
        &["t.toml:3:11: unknown key \"stat\" in reply of [[route]], did you mean \"status\"?"],
    );
}

#[test]
fn values_of_another_type_are_told_with_what_is_allowed() {
    let size = "a size from 4KiB to 16GiB like \"64MiB\", units B, KiB, MiB, GiB";
    let age = "a duration from 10ms to 24h like \"10s\", units ms, s, m, h";
    check("server = 1\n", &["t.toml:1:10: server in the file is the integer 1, allowed is a table [server]"]);
    check(
        "[server]\nbacklog = \"x\"\nlisten = \"127.0.0.1:80\"\nworkers = 1.5\n",
        &[
            "t.toml:2:11: backlog in [server] is the string \"x\", allowed is an integer from 1 to 65535",
            "t.toml:3:10: listen in [server] is the string \"127.0.0.1:80\", allowed is a list: write \
             listen = [\"127.0.0.1:80\"]",
            "t.toml:4:11: workers in [server] is the number 1.5, allowed is \"auto\" or an integer from 1 to 1024",
        ],
    );
    check(
        "[log]\nsegment_bytes_max = 64\nsegment_age_max = true\ndir = []\n",
        &[
            &format!("t.toml:2:21: segment_bytes_max in [log] is the integer 64, allowed is {size}"),
            &format!("t.toml:3:19: segment_age_max in [log] is true, allowed is {age}"),
            "t.toml:4:7: dir in [log] is a list, allowed is a string",
        ],
    );
    check(
        "[route]\npath = \"/\"\nreply = {}\n",
        &["t.toml:1:1: [route] is one table, allowed is a list of sections [[route]]: write [[route]]"],
    );
    check(
        "[stream]\nx = 1\n[stream.y]\ncolumns = [{ name = \"n\", type = \"int\" }]\n",
        &["t.toml:2:5: x in [stream] is the integer 1, allowed is a table [stream.x]"],
    );
    check(
        "[[route]]\npath = \"/\"\ncollect = \"yes\"\nstream = 2024-01-01\n",
        &[
            "t.toml:3:11: collect in [[route]] is the string \"yes\", allowed is true or a table { ... }",
            "t.toml:4:10: stream in [[route]] is the time 2024-01-01, allowed is a string",
        ],
    );
}

#[test]
fn values_out_of_bounds_are_told_with_the_bounds() {
    check(
        "[server]\nworkers = 0\nbacklog = -1\nfields_max = 99999999999999999999\n",
        &[
            "t.toml:2:11: workers in [server] is 0, allowed is \"auto\" or an integer from 1 to 1024",
            "t.toml:3:11: backlog in [server] is -1, allowed is an integer from 1 to 65535",
            "t.toml:4:14: fields_max in [server] is 99999999999999999999, allowed is an integer from 1 to 10000",
        ],
    );
    check(
        "[server]\nidle_timeout = \"75\"\nhead_bytes_max = \"16KB\"\n",
        &[
            "t.toml:2:16: idle_timeout in [server] is \"75\", allowed is a duration from 1ms to 24h like \"10s\", \
             units ms, s, m, h",
            "t.toml:3:18: head_bytes_max in [server] is \"16KB\", allowed is a size from 1KiB to 1MiB like \
             \"64MiB\", units B, KiB, MiB, GiB",
        ],
    );
    check(
        "[log]\ntransaction_bytes_max = \"9MiB\"\n",
        &[
            "t.toml:2:25: transaction_bytes_max in [log] is \"9MiB\", allowed is a size from 1KiB to 8MiB like \
           \"64MiB\", units B, KiB, MiB, GiB",
        ],
    );
    check(
        "[log]\nqueue_bytes_max = \"1MiB\"\n",
        &["t.toml:2:19: transaction_bytes_max is 4MiB, limit is 1MiB, the value of queue_bytes_max"],
    );
    check(
        "[server]\nhead_bytes_max = \"4KiB\"\n",
        &["t.toml:2:18: target_bytes_max is 8000B, limit is 4KiB, the value of head_bytes_max"],
    );
    check(
        "[server]\nlisten = [\"localhost:80\", \"127.0.0.1:80\", \"127.0.0.1:80\"]\n",
        &[
            "t.toml:2:11: listen has \"localhost:80\", allowed is an IP address and a port: write \
             \"127.0.0.1:80\", or \"0.0.0.0:80\" for all interfaces",
            "t.toml:2:43: listen has \"127.0.0.1:80\" twice",
        ],
    );
    check(
        "[server]\nlisten = [\"unix:\", \"systemd:\", \"unix:a\", \"unix:a\", { address = \"1.1.1.1:1\", mode = \"0600\" },\n\
         { address = \"unix:b\", mode = \"888\", proxy = true }, 5, { address = \"unix:c\", deferred = true },\n\
         { address = \"1.1.1.1:2\", deferred = \"auto\" }]\n",
        &[
            "t.toml:2:11: listen has \"unix:\", allowed is \"ip:port\" like \"127.0.0.1:8080\", \"unix:PATH\", \
             \"systemd\" or \"systemd:NAME\"",
            "t.toml:2:20: listen has \"systemd:\", allowed is \"ip:port\" like \"127.0.0.1:8080\", \
             \"unix:PATH\", \"systemd\" or \"systemd:NAME\"",
            "t.toml:2:42: listen has \"unix:a\" twice",
            "t.toml:2:84: mode in listen is allowed only for a Unix socket: remove it",
            "t.toml:3:30: mode in listen is \"888\", allowed is \"0\" and three octal digits",
            "t.toml:3:37: unknown key \"proxy\" in listen of [server], allowed: address, proxy_protocol, deferred, tls, redirect_to_https, mode",
            "t.toml:3:53: listen in [server] is the integer 5, allowed is a string",
            "t.toml:3:89: deferred in listen is allowed only for TCP, found a Unix socket: remove it",
            "t.toml:4:37: deferred in listen of [server] is the string \"auto\", allowed is true or false",
        ],
    );
    check(
        "[server]\ntrusted_proxies = [\"10.0.0.1/8\", \"lan\"]\n",
        &[
            "t.toml:2:20: trusted_proxies has \"10.0.0.1/8\", allowed is a network like \"10.0.0.0/8\" with \
             zero bits after its prefix, an address, or \"unix\"",
            "t.toml:2:34: trusted_proxies has \"lan\", allowed is a network like \"10.0.0.0/8\" with zero \
             bits after its prefix, an address, or \"unix\"",
        ],
    );
    check(
        "[server]\nlisten = []\n",
        &["t.toml:2:10: listen in [server] is empty, allowed is a list of \"ip:port\""],
    );
    let long = "x".repeat(49);
    check(
        &format!("[log]\nnode = \"{long}\"\ndigest = \"md5\"\n"),
        &[
            &format!(
                "t.toml:2:8: node in [log] is \"{long}\", allowed are at most 48 bytes without control characters"
            ),
            "t.toml:3:10: digest in [log] is \"md5\", allowed: none, sha224, sha256, sha384, sha512",
        ],
    );
}

#[test]
fn missing_variables_are_named() {
    check(
        "[log]\ndir = \"${NOWHERE}/${ELSE}\"\nnode = \"${\"\n",
        &[
            "t.toml:2:7: dir in [log]: environment variable ELSE is not set",
            "t.toml:2:7: dir in [log]: environment variable NOWHERE is not set",
            "t.toml:3:8: node in [log]: \"${\" has no closing \"}\", allowed is ${NAME}, or $${ for ${ itself",
        ],
    );
}

#[test]
fn bounds_that_cannot_be_reached_are_told_with_what_keeps_them_from_it() {
    let route = "[[route]]\npath = \"/\"\nreply = {}\n";
    check(
        "[server]\nbody_bytes_max = \"2GiB\"\n",
        &["t.toml:2:18: body_bytes_max is 2GiB, limit is 1GiB, the larger of spool_bytes_max and \
             body_memory_max: raise one of them"],
    );
    check(
        &format!("[server]\nspool_bytes_max = \"0B\"\n{route}body_bytes_max = \"256KiB\"\n"),
        &["t.toml:1:1: body_bytes_max is 1MiB, limit is 256KiB, the larger of spool_bytes_max and \
             body_memory_max: raise one of them"],
    );
    check(
        &format!("[server]\nbody_bytes_max = \"1GiB\"\n{route}body_bytes_max = \"1025MiB\"\n"),
        &["t.toml:6:18: body_bytes_max is 1025MiB, limit is 1GiB, the larger of spool_bytes_max and \
             body_memory_max: raise one of them"],
    );
    check("[server]\nspool_bytes_max = \"0B\"\nbody_memory_max = \"1MiB\"\n", &[]);
    check(
        "[server]\nin_flight_bytes_max = \"16MiB\"\nbody_memory_max = \"13MiB\"\nbody_bytes_max = \"13MiB\"\n",
        &["t.toml:3:19: body_memory_max is 13MiB, limit is 12MiB, three quarters of in_flight_bytes_max: \
             raise that"],
    );
    check(
        "[server]\nconnections_max = 10\nconnections_per_client_max = 11\nidle_timeout = \"1s\"\n\
         idle_timeout_crowded = \"2s\"\n",
        &[
            "t.toml:3:30: connections_per_client_max is 11, limit is 10, the value of connections_max",
            "t.toml:5:24: idle_timeout_crowded is 2s, limit is 1s, the value of idle_timeout",
        ],
    );
}

#[test]
fn the_crowded_idle_timeout_is_no_longer_than_a_short_idle_timeout() {
    let printed = load("[server]\nidle_timeout = \"1s\"\n").unwrap().to_string();
    assert!(printed.contains("\nidle_timeout_crowded = \"1s\"\n"), "{printed}");
    check(&printed, &[]);
}

#[test]
fn one_bad_section_does_not_hide_the_others() {
    check(
        "sink = 1\n[log]\ndigest = 1\n[server]\nx = 1\n[stream.s]\n[[route]]\n[script]\ncpu_budget = \"0ms\"\n",
        &[
            "t.toml:1:8: sink in the file is the integer 1, allowed is a table [sink]",
            "t.toml:3:10: digest in [log] is the integer 1, allowed is a string",
            "t.toml:5:1: unknown key \"x\" in [server], allowed: listen, backlog, workers, trusted_proxies, \
             client_header, head_bytes_max, target_bytes_max, fields_max, underscore_names, body_bytes_max, \
             body_memory_max, spool_dir, spool_bytes_max, spool_encrypt, xml_doctype, head_timeout, \
             body_timeout, idle_timeout, idle_timeout_crowded, write_timeout, body_rate_min, body_rate_grace, \
             write_rate_min, \
             pipeline_depth_max, requests_per_connection_max, connections_max, connections_per_client_max, \
             in_flight_bytes_max, queue_age_max, request_id, trace, drain_delay, drain_timeout",
            "t.toml:6:1: missing key \"columns\" in [stream.s]",
            "t.toml:7:1: [[route]] needs one handler, found none, allowed is one of script, files, proxy, collect, reply, when",
            "t.toml:7:1: missing key \"path\" in [[route]]",
            "t.toml:9:14: cpu_budget in [script] is \"0ms\", allowed is a duration from 1ms to 10m like \"10s\", \
             units ms, s, m, h",
        ],
    );
}

#[test]
fn variables_for_scripts_are_names_and_there_once() {
    check(
        "[script]\nenv = [\"A\", \"\", \"A\", \"A=B\"]\nshared_bytes_max = \"1TiB\"\n",
        &[
            "t.toml:2:13: env in [script] has \"\", allowed is the name of a variable",
            "t.toml:2:17: env in [script] has \"A\" twice",
            "t.toml:2:22: env in [script] has \"A=B\", allowed is the name of a variable",
            "t.toml:3:20: shared_bytes_max in [script] is \"1TiB\", allowed is a size from 0B to 64GiB like \"64MiB\", \
             units B, KiB, MiB, GiB",
        ],
    );
}

#[test]
fn a_fault_of_toml_is_reported_alone_and_a_double_key_with_the_rest() {
    check(
        "[server]\nx = 1\nbacklog = oops\nworkers =\n",
        &[
            "t.toml:3:11: string values must be quoted, expected literal string",
            "t.toml:4:10: string values must be quoted, expected literal string",
        ],
    );
    check(
        "[server]\nbacklog = 1\nbacklog = 2\nx = 1\nworkers = 0\n",
        &[
            "t.toml:3:1: duplicate key",
            "t.toml:4:1: unknown key \"x\" in [server], allowed: listen, backlog, workers, trusted_proxies, \
             client_header, head_bytes_max, target_bytes_max, fields_max, underscore_names, body_bytes_max, \
             body_memory_max, spool_dir, spool_bytes_max, spool_encrypt, xml_doctype, head_timeout, \
             body_timeout, idle_timeout, idle_timeout_crowded, write_timeout, body_rate_min, body_rate_grace, \
             write_rate_min, \
             pipeline_depth_max, requests_per_connection_max, connections_max, connections_per_client_max, \
             in_flight_bytes_max, queue_age_max, request_id, trace, drain_delay, drain_timeout",
            "t.toml:5:11: workers in [server] is 0, allowed is \"auto\" or an integer from 1 to 1024",
        ],
    );
}

#[test]
fn the_admin_listener_has_an_address_of_its_own() {
    let text = |served: &str, admin: &str| {
        format!("[server]\nlisten = [\"{served}\"]\n[admin]\nlisten = \"{admin}\"\n")
    };
    let of_server = |found: &str| {
        format!(
            "t.toml:4:10: listen in [admin] is \"{found}\", which listen in [server] has too: choose another \
             address"
        )
    };
    for address in ["127.0.0.1:8080", "unix:a.sock"] {
        check(&text(address, address), &[&of_server(address)]);
    }
    check(&text("127.0.0.1:0", "127.0.0.1:0"), &[]);
    check(&text("127.0.0.1:8080", "127.0.0.1:8081"), &[]);
}
