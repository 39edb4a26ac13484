//! Tries the alarms of dist/prometheus on the metrics of a real server. promtool replays the scrapes as
//! simulated time, one scrape in 30 s.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admin::get;
use crate::program::{App, printed};

/// Number of scrapes. They are repeated until the simulated time is over.
const SCRAPES: usize = 20;
/// Time between two scrapes. It is not a wait for a condition: the scrapes cover several seconds, so that an
/// alarm that flaps is seen.
const SCRAPE_PAUSE: Duration = Duration::from_millis(150);
/// Simulated time between two scrapes, in seconds.
const INTERVAL_S: u64 = 30;
/// Simulated minute by which each expected alarm fires.
pub(crate) const FIRING_FROM: u64 = 12;
/// Simulated minutes that follow. The alarms fire until their end.
const FIRING_FOR: u64 = 10;
/// An alarm that a busy machine may cause. All other alarms must be exactly the expected ones.
const OF_THE_MACHINE: &str = "TollgateSlow";
/// Free bytes of the disk. Other programs use the disk too, so the first value counts.
const OF_OTHERS: &str = "tollgate_log_free_bytes";

/// Series with their values, by name and labels.
type Scrape = BTreeMap<String, f64>;

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/prometheus/tollgate.rules.yml")
}

fn promtool(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new("promtool");
    let output = command.args(arguments).arg(file).output();
    output.unwrap_or_else(|error| panic!("cannot run promtool: {error}: `make tools` installs it"))
}

/// Checks that exactly these alarms fire on the metrics of the server, and that none of them flaps. `drive`
/// sends requests between two scrapes.
pub(crate) fn check_alarms(app: &App, expected: &[&str], mut drive: impl FnMut()) {
    let scrape = || {
        drive();
        get(app, "/metrics").content
    };
    check_alarms_of(scrape, expected, FIRING_FROM);
}

/// Checks alarms as [`check_alarms`] does, on metrics from anywhere. The alarms may need `firing_from`
/// minutes.
pub(crate) fn check_alarms_of(mut scrape: impl FnMut() -> String, expected: &[&str], firing_from: u64) {
    let begun = Instant::now();
    let mut texts = Vec::new();
    for _ in 0..SCRAPES {
        texts.push(scrape());
        thread::sleep(SCRAPE_PAUSE);
    }
    let pause_s = begun.elapsed().as_secs_f64() / SCRAPES as f64;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.yml");
    // JSON is a part of YAML.
    let scale = INTERVAL_S as f64 / pause_s;
    fs::write(&file, rule_test(&texts, scale, expected, firing_from).to_string()).unwrap();
    let output = promtool(&["test", "rules"], &file);
    assert!(output.status.success(), "expected are {expected:?}: {}", printed(&output));
}

fn rule_test(texts: &[String], scale: f64, expected: &[&str], firing_from: u64) -> Value {
    let question =
        format!("group by (alertname) (ALERTS{{alertstate=\"firing\", alertname!=\"{OF_THE_MACHINE}\"}})");
    let sample = |name: &&str| json!({ "labels": format!("{{alertname=\"{name}\"}}"), "value": 1 });
    let samples: Vec<_> = expected.iter().map(sample).collect();
    let minutes = firing_from + FIRING_FOR;
    let ask = |minute| json!({ "expr": question, "eval_time": format!("{minute}m"), "exp_samples": samples });
    json!({
        "rule_files": [rules()],
        "evaluation_interval": "30s",
        "tests": [{
            "interval": format!("{INTERVAL_S}s"),
            "input_series": input_series(texts, scale, minutes),
            "promql_expr_test": (firing_from..=minutes).map(ask).collect::<Vec<_>>(),
        }],
    })
}

/// Returns the series of all metrics that the rules use.
fn input_series(texts: &[String], scale: f64, minutes: u64) -> Vec<Value> {
    let rules = fs::read_to_string(rules()).unwrap();
    let scrapes: Vec<Scrape> = texts.iter().map(|text| scrape(text)).collect();
    let is_counter = |series: &str| {
        let name = series.split('{').next().unwrap();
        name.ends_with("_total") || name.ends_with("_bucket")
    };
    let count = usize::try_from(minutes * 60 / INTERVAL_S).unwrap() + 1;
    let mut all =
        vec![json!({ "series": "up{job=\"tollgate\", instance=\"a\"}", "values": format!("1x{count}") })];
    for series in scrapes[0].keys().filter(|series| rules.contains(series.split('{').next().unwrap())) {
        let known: Vec<_> = scrapes.iter().filter_map(|scrape| scrape.get(series)).copied().collect();
        let (first, last) = (known[0], known[known.len() - 1]);
        let step = (last - first) / (known.len().max(2) - 1) as f64 * scale;
        let value = |at: usize| match series {
            series if is_counter(series) => first + step * at as f64,
            series if series.starts_with(OF_OTHERS) => first,
            _ => known[at % known.len()],
        };
        let values: Vec<_> = (0..count).map(|at| value(at).to_string()).collect();
        all.push(json!({ "series": labelled(series), "values": values.join(" ") }));
    }
    all
}

fn scrape(text: &str) -> Scrape {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = samples.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(series, value)| (series.to_owned(), value.parse().unwrap())).collect()
}

/// Adds the labels that Prometheus gives to each series of a server.
fn labelled(series: &str) -> String {
    let target = "job=\"tollgate\",instance=\"a\"";
    match series.split_once('{') {
        Some((name, labels)) => format!("{name}{{{target},{labels}"),
        None => format!("{series}{{{target}}}"),
    }
}

#[test]
fn promtool_accepts_the_rules_and_each_alarm_passes_its_test() {
    let output = promtool(&["check", "rules"], &rules());
    assert!(output.status.success(), "{}", printed(&output));
    let output = promtool(&["test", "rules"], &rules().with_file_name("tollgate.rules.test.yml"));
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn a_server_without_a_fault_has_no_alarm() {
    let app = App::new("[[route]]\npath = \"/\"\nreply = {}\n", &[]);
    let server = app.start();
    check_alarms(&app, &[], || assert!(server.connect().get("/").unwrap().is_success()));
    server.stop();
}

#[test]
fn each_alarm_links_to_its_row_of_the_page_for_operators() {
    let page = include_str!("../../../../docs/how-to/operate.md");
    let text = fs::read_to_string(rules()).unwrap();
    let alarms = text.split("- alert: ").skip(1);
    let count = alarms
        .map(|alarm| {
            let name = alarm.lines().next().unwrap();
            let link = format!("}}}}/how-to/operate.html#:~:text={name}\"");
            assert!(alarm.contains(&link), "{name} has no runbook_url with {link}");
            assert!(page.contains(name), "the page has no row for {name}");
        })
        .count();
    assert!(count > 40, "{count}");
}
