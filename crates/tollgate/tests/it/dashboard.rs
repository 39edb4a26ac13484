//! Asks a real Prometheus each query of the Grafana dashboard, while it scrapes a server under load.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::program::{App, Running, eventually, patient, printed};

/// A server with each kind of metric. `@PORT@` is the port of its admin listener.
const CONFIG: &str = r#"
[server]
listen = ["127.0.0.1:0", { address = "127.0.0.1:0", tls = true }]

[admin]
listen = "127.0.0.1:@PORT@"

[[certificate]]
file = "data/tls/local.pem"
key_file = "data/tls/local-key.pem"

[sink.main]
sqlite = "data/rows.sqlite"

[backend.away]
urls = ["http://127.0.0.1:1"]

[ship.copy]
dir = "copy"

[[route]]
path = "/keep"
script = "keep.luau"
stream = "kept"

[[route]]
path = "/broken"
script = "broken.luau"

[[route]]
path = "/away"
proxy = "away"

[stream.kept]
columns = [{ name = "n", type = "int", from = "record.n" }]
"#;
const SCRIPTS: [(&str, &str); 2] =
    [("keep.luau", crate::program::KEEP), ("broken.luau", "return function() error('on purpose') end")];

fn file_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(name)
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A running Prometheus.
struct Prometheus {
    address: SocketAddr,
    child: Child,
}

impl Prometheus {
    /// Starts to scrape the server at `target` each second.
    fn start(folder: &Path, target: SocketAddr) -> Self {
        let address = free_address();
        // JSON is a part of YAML.
        let scrape = json!({ "scrape_configs": [{
            "job_name": "tollgate",
            "scrape_interval": "1s",
            "static_configs": [{ "targets": [target.to_string()] }],
        }] });
        fs::write(folder.join("prometheus.yml"), scrape.to_string()).unwrap();
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .current_dir(folder)
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=series")
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::from(log))
            .spawn();
        let child =
            child.unwrap_or_else(|error| panic!("cannot run prometheus: {error}: `make tools` installs it"));
        Self { address, child }
    }

    /// Returns the samples of a query. There are none before Prometheus serves.
    fn ask(&self, query: &str) -> Vec<Value> {
        let output = Command::new("curl")
            .args(["-sS", "--get", "--data-urlencode", &format!("query={query}")])
            .arg(format!("http://{}/api/v1/query", self.address))
            .output()
            .unwrap();
        let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) else { return Vec::new() };
        assert_eq!(answer["status"], "success", "{query}: {}", printed(&output));
        let samples = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        samples.into_iter().filter(|sample| sample["value"][1] != "NaN").collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // An error means that the child has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends requests that succeed, fail and are not found.
fn send(server: &Running) {
    let mut client = server.connect();
    for path in ["/keep?n=1", "/keep?n=x", "/broken", "/away", "/nowhere"] {
        client.get(path).unwrap();
    }
}

/// Returns the panels with their titles and queries, with the variables of Grafana replaced.
fn queries() -> Vec<(String, String)> {
    let text = fs::read_to_string(file_of("grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let replaced = |query: &str| {
        let query = query.replace("$__rate_interval", "15s").replace("$instance", ".*");
        query.replace("$job", "tollgate")
    };
    let panels = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (title.clone(), target["expr"].as_str().unwrap().to_owned()))
    });
    let annotations = dashboard["annotations"]["list"].as_array().unwrap().iter();
    for note in annotations {
        assert!(!replaced(note["expr"].as_str().unwrap()).contains('$'), "{note}");
    }
    panels.map(|(title, query)| (title, replaced(&query))).collect()
}

#[test]
fn each_query_of_the_dashboard_has_an_answer_of_a_real_prometheus() {
    let app = App::bare(&SCRIPTS);
    app.succeed(&["cert", "local"]);
    let admin = free_address();
    app.write("tollgate.toml", &patient(&CONFIG.replace("@PORT@", &admin.port().to_string())));
    let server = app.start();
    let prometheus = Prometheus::start(app.path(), admin);
    let all = queries();
    assert!(all.len() > 50, "{}", all.len());
    for (title, query) in all {
        eventually(&format!("{title} has a line: {query}"), || {
            send(&server);
            (!prometheus.ask(&query).is_empty()).then_some(())
        });
    }
    server.stop();
}
