//! The metrics: every line follows the grammar of the format, every name is in the docs, and the docs have no
//! other names.

use std::collections::{BTreeMap, BTreeSet};

use tempfile::TempDir;

use crate::admin::{get, get_of_loader, get_until};
use crate::load_from::{SQLITE, database_machine};
use crate::program::{App, eventually};
use crate::tls;

const DOCS: &str = include_str!("../../../../docs/reference/metrics.md");
const OPERATIONS: &str = include_str!("../../../../docs/how-to/operate.md");
const RULES: &str = include_str!("../../../../dist/prometheus/tollgate.rules.yml");
const RULE_TESTS: &str = include_str!("../../../../dist/prometheus/tollgate.rules.test.yml");

const CONFIG: &str = r#"
workers = 2
[stream.s]
columns = [{ name = "path", type = "text", from = "request.path" }]
[[route]]
path = "/kept/{n}"
methods = ["GET"]
host = "a"
reply = { body = "kept" }
stream = "s"
[backend.away]
urls = ["http://127.0.0.1:1"]
[[route]]
path = "/away"
proxy = "away"
[[route]]
path = "/bad"
script = "bad.luau"
[[route]]
path = "/seldom"
reply = { body = "once" }
rate_limit = { rate = "1/h" }
[[route]]
path = "/judged"
script = "judged.luau"
validate = { reply = "order.rnc", mode = "report" }
[sink.main]
sqlite = "data/tollgate.sqlite"
[ship.away]
dir = "away"
[ship.disks]
volumes = ["disk-a", "disk-b"]
"#;

/// A metric family: its type, and its samples by name and labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    samples: BTreeMap<String, f64>,
}

/// Reads the text more strictly than `promtool check metrics`. Each family occurs once, in one piece, with
/// help and type before its samples. No sample occurs twice.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect(line);
            assert!(is_name(name) && help.ends_with('.') && !help.contains('\\'), "{line}");
            assert!(families.insert(name.to_owned(), Family::default()).is_none(), "twice: {line}");
            name.clone_into(&mut current);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect(line);
            assert_eq!(name, current, "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            kind.clone_into(&mut families.get_mut(name).unwrap().kind);
        } else {
            let (series, value) = line.rsplit_once(' ').expect(line);
            let (name, labels) = series
                .split_once('{')
                .map_or((series, ""), |(name, labels)| (name, labels.strip_suffix('}').expect(line)));
            check_labels(labels);
            let family = families.get_mut(&current).expect(line);
            let suffixes: &[&str] =
                if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.iter().any(|suffix| name == format!("{current}{suffix}")), "{line}");
            assert!(family.samples.insert(series.to_owned(), value.parse().expect(line)).is_none(), "{line}");
        }
    }
    families
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Checks `name="value",...`, with quotes and backslashes escaped.
fn check_labels(mut labels: &str) {
    while !labels.is_empty() {
        let (name, rest) = labels.split_once("=\"").expect(labels);
        assert!(is_name(name), "{labels}");
        let mut is_escaped = false;
        let end = rest.bytes().position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        labels = &rest[end.expect(labels) + 1..];
        labels = labels.strip_prefix(',').unwrap_or(labels);
    }
}

/// Returns the names in the first cells of the tables.
fn documented() -> BTreeSet<String> {
    let cells = DOCS.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    cells.map(|(name, _)| name.split('{').next().unwrap().to_owned()).collect()
}

/// Returns the metrics that only a process that loads from a store has.
fn families_of_loader() -> BTreeMap<String, Family> {
    let (store, app) = (TempDir::new().unwrap(), database_machine(SQLITE));
    let _loader = app.follow(&["load", "--from", store.path().to_str().unwrap()]);
    let reply = eventually("the loader answers", || get_of_loader(&app, "/metrics"));
    let mut families = parse(&reply.content);
    assert_eq!(families["tollgate_phase"].samples["tollgate_phase{phase=\"loading\"}"], 1.0);
    families.retain(|name, _| name.starts_with("tollgate_fetch_"));
    families
}

/// Returns the metrics of certificates, which only a server with TLS has.
fn families_of_certificates() -> BTreeMap<String, Family> {
    let app = App::bare(&[("tollgate.toml", tls::CONFIG)]);
    tls::make(&app, "server", "a.test");
    let _server = app.start();
    let mut families =
        parse(&get_until(&app, "/metrics", 200, "tollgate_certificate_expires_seconds{").content);
    families.retain(|name, _| name.starts_with("tollgate_certificate_"));
    families
}

#[test]
fn every_metric_is_in_the_docs_and_every_one_of_the_docs_is_told() {
    let files = [
        ("bad.luau", "return function() error('bad') end"),
        ("judged.luau", "return function() return { xml = { tag = 'itme' } } end"),
        ("order.rnc", "element order { empty }"),
    ];
    let app = App::new(CONFIG, &files);
    let server = app.start();
    let mut client = server.connect();
    client.get("/judged").unwrap();
    for path in ["/kept/1", "/kept/2", "/bad", "/nothing", "/seldom", "/seldom"] {
        client.get(path).unwrap();
    }
    client.send("BAD\r\n\r\n");
    assert_eq!(client.reply().unwrap().status, 400);
    get_until(&app, "/metrics", 200, "tollgate_load_rows_total{sink=\"main\"} 2\n");
    let mut families = parse(&get(&app, "/metrics").content);
    families.extend(families_of_loader());
    families.extend(families_of_certificates());
    let told: BTreeSet<_> = families.keys().cloned().collect();
    let documented = documented();
    assert_eq!(told.difference(&documented).collect::<Vec<_>>(), [""; 0], "told, and not in metrics.md");
    assert_eq!(documented.difference(&told).collect::<Vec<_>>(), [""; 0], "in metrics.md, and not told");
    // The tests of `queued` look at those of topics, because they have a broker.
    for (name, family) in families.iter().filter(|(name, _)| !name.starts_with("tollgate_topic_")) {
        assert!(!family.samples.is_empty(), "{name} has no sample");
    }
    check_values(&families);
    let judged = "tollgate_xml_messages_total{route=\"/judged\",side=\"reply\",result=\"invalid\"}";
    assert_eq!(families["tollgate_xml_messages_total"].samples[judged], 1.0);
    check_refusals(&families);
    // Routes that both configurations have keep their counts. A removed route is no longer listed.
    app.write("tollgate.toml", &app.config().replace("/bad", "/worse"));
    app.succeed(&["reload"]);
    let families = parse(&get(&app, "/metrics").content);
    let requests = &families["tollgate_http_requests_total"].samples;
    assert_eq!(
        requests["tollgate_http_requests_total{route=\"/kept/{n}\",host=\"a\",methods=\"GET\",class=\"2xx\"}"],
        2.0
    );
    assert!(!requests.keys().any(|series| series.contains("/bad")), "{requests:?}");
    assert_eq!(families["tollgate_config_version"].samples["tollgate_config_version"], 2.0);
    let screen = app.succeed(&["status"]);
    let row = screen.lines().find(|line| line.starts_with("/seldom ")).expect(&screen);
    assert_eq!(row.split_whitespace().last(), Some("1"), "{screen}");
    let (_, log) = server.stop();
    let line = log.lines().find(|line| line.contains("requests exceed a limit of the route")).expect(&log);
    assert!(
        line.contains(
            "\"route\":\"/seldom\",\"reason\":\"rate\",\"limit\":\"1 in 3600 s\",\"refused\":1,\
             \"client\":\"127.0.0.1\""
        ),
        "{line}"
    );
}

fn check_values(families: &BTreeMap<String, Family>) {
    let value = |series: &str| {
        let name = series.split('{').next().unwrap();
        let family = families.get(name).or_else(|| families.get(name.rsplit_once('_')?.0));
        *family.and_then(|family| family.samples.get(series)).unwrap_or_else(|| panic!("{series}"))
    };
    let kept = "route=\"/kept/{n}\",host=\"a\",methods=\"GET\"";
    assert_eq!(value(&format!("tollgate_http_requests_total{{{kept},class=\"2xx\"}}")), 2.0);
    assert_eq!(value(&format!("tollgate_http_request_duration_seconds_count{{{kept}}}")), 2.0);
    assert_eq!(value("tollgate_http_requests_total{route=\"/bad\",class=\"5xx\"}"), 1.0);
    assert_eq!(value("tollgate_script_failures_total{route=\"/bad\",reason=\"error\"}"), 1.0);
    assert_eq!(value("tollgate_http_malformed_total{status=\"400\"}"), 1.0);
    // The replies are 404, 400, and 429.
    assert_eq!(value("tollgate_http_unrouted_total{class=\"4xx\"}"), 3.0);
    assert_eq!(value("tollgate_http_refused_total{route=\"/seldom\",reason=\"rate\"}"), 1.0);
    assert_eq!(value("tollgate_refusals_total{reason=\"rate\"}"), 1.0);
    assert_eq!(value("tollgate_log_records_total"), 2.0);
    assert_eq!(value("tollgate_log_synced_records_total"), 2.0);
    assert_eq!(value("tollgate_load_lag_records{sink=\"main\"}"), 0.0);
    assert_eq!(value("tollgate_http_requests_in_flight"), 0.0);
    assert_eq!(value("tollgate_ready"), 1.0);
    assert!(value("tollgate_log_sync_seconds_count") >= 1.0);
    assert!(value("tollgate_received_bytes_total") > 100.0 && value("tollgate_sent_bytes_total") > 100.0);
    assert!(value("tollgate_worker_script_memory_bytes{worker=\"1\"}") > 10_000.0);
    assert_eq!(value("tollgate_worker_scripts_queued{worker=\"1\"}"), 0.0);
    assert_eq!(value("tollgate_worker_script_queue_age_seconds{worker=\"1\"}"), 0.0);
    let memory = |kind: &str| value(&format!("tollgate_memory_bytes{{kind=\"{kind}\"}}"));
    assert!(memory("resident") > memory("scripts") && memory("scripts") > 20_000.0);
    assert_eq!([memory("in_flight_max"), memory("log_queue_max")], [256.0, 64.0].map(|mib| mib * 1048576.0));
    assert_eq!([memory("in_flight"), memory("log_queue")], [0.0, 0.0]);
    assert!(value("process_resident_memory_bytes") > 1e6 && value("process_open_fds") > 5.0);
}

/// Checks that each reason of a refusal has one alarm, with a remedy.
fn check_refusals(families: &BTreeMap<String, Family>) {
    let (_, limits) = RULES.split_once("{reason=~\"").expect("an alarm for what is over a limit");
    let limits: Vec<_> = limits.split('"').next().unwrap().split('|').collect();
    assert!(RULES.contains(&format!("{{reason!~\"{}\"}}", limits.join("|"))), "what is no page is a ticket");
    for series in families["tollgate_refusals_total"].samples.keys() {
        let reason = series.split('"').nth(1).expect(series);
        let alarm = if limits.contains(&reason) { "TollgateOverLimit" } else { "TollgateRefusing" };
        let mut rows = OPERATIONS.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let named = format!("`{reason}`");
        let is_told = rows.any(|row| row.split_once(alarm).is_some_and(|(_, of)| of.contains(&named)));
        assert!(is_told, "{alarm} {named} is not in docs/how-to/operate.md");
    }
}

#[test]
fn every_alarm_is_tried_and_what_to_do_is_written() {
    let alarms: Vec<_> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alarms.len() > 10, "{alarms:?}");
    for alarm in alarms {
        assert!(
            OPERATIONS.contains(alarm),
            "{alarm} is in tollgate.rules.yml, and not in docs/how-to/operate.md"
        );
        assert!(
            RULE_TESTS.contains(&format!("  - name: {alarm}\n")),
            "{alarm} is in tollgate.rules.yml, and not in tollgate.rules.test.yml"
        );
    }
}

#[test]
fn the_rules_for_alarms_ask_for_metrics_that_there_are() {
    let documented = documented();
    let words = RULES.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let asked: BTreeSet<_> =
        words.filter(|word| word.starts_with("tollgate_") || word.starts_with("process_")).collect();
    assert!(asked.len() > 10, "{asked:?}");
    for name in asked {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let is_known = documented.contains(name) || family.is_some_and(|family| documented.contains(family));
        assert!(is_known, "{name} is in tollgate.rules.yml, and not in docs/reference/metrics.md");
    }
}
