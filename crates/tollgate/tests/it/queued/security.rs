//! TLS and SASL to a real broker, whose certificate comes from an authority that `openssl` made.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tempfile::TempDir;
use tollgate_faults::kafka::{Kafka, KafkaOptions, SecureListener, certificates};

use crate::program::{App, BINARY, eventually, printed};

const CONFIG: &str = r#"
[stream.a]
ack = "queued"
ack_timeout = "60s"
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
[sink.bus]
kafka = "BROKER"
topic = "TOPIC.{stream}"
tls = true
tls_ca = "CA"
sasl = "MECHANISM"
PROOF
"#;

const PASSWORD: &str = "sasl_user = \"alice\"\nsasl_password = \"${KAFKA_PASSWORD}\"";
const TOKEN: &str = "sasl_token_file = \"token\"";

/// The file of an authority, and the password of the user.
struct Proof<'a> {
    ca: &'static str,
    password: &'a str,
}

/// Makes a token of OAUTHBEARER without a signature (RFC 7519 section 6), for a time from now.
fn token(age: Duration) -> String {
    let now = UNIX_EPOCH.elapsed().unwrap();
    let (made, end) = (now.as_secs() - 60, (now + age).as_secs() - 30);
    let claims = format!("{{\"sub\":\"alice\",\"iat\":{made},\"exp\":{end}}}");
    let [head, claims] = ["{\"alg\":\"none\"}", &claims].map(|json| URL_SAFE_NO_PAD.encode(json));
    format!("{head}.{claims}.")
}

/// Makes an app that reads its password from the environment.
fn app(kafka: &Kafka, folder: &Path, mechanism: &str, proof: &Proof<'_>) -> App {
    let ca = folder.join(proof.ca).display().to_string();
    let config = CONFIG
        .replace("BROKER", &kafka.secure_address())
        .replace("TOPIC", mechanism)
        .replace("\"CA\"", &format!("{ca:?}"))
        .replace("MECHANISM", mechanism)
        .replace("PROOF", if mechanism == "oauthbearer" { TOKEN } else { PASSWORD });
    if mechanism == "oauthbearer" {
        return App::new(&config, &[("token", &format!("{}\n", proof.password))]);
    }
    App::new(&config, &[])
}

fn program(proof: &Proof<'_>) -> Command {
    let mut command = Command::new(BINARY);
    command.env("KAFKA_PASSWORD", proof.password);
    command
}

/// Runs `check` with these arguments.
fn check(app: &App, proof: &Proof<'_>, argument: &str) -> (bool, String) {
    let output = program(proof).args(["check", argument]).current_dir(app.path()).output().unwrap();
    let text = printed(&output);
    assert!(!text.contains(proof.password), "{text}");
    (output.status.success(), text)
}

#[test]
fn a_sink_proves_its_name_by_each_mechanism_inside_tls_and_a_wrong_proof_is_named() {
    let folder = TempDir::new().unwrap();
    certificates(folder.path());
    let secure = SecureListener {
        pem: folder.path().join("broker.pem"),
        user: "alice".to_owned(),
        password: "open-sesame".to_owned(),
    };
    let options = KafkaOptions { secure: Some(secure), ..KafkaOptions::default() };
    let kafka = Kafka::start(&folder.path().join("kafka"), &options);
    let token = token(Duration::from_secs(3_600));
    let password = "open-sesame";
    for (mechanism, password) in [
        ("plain", password),
        ("scram-sha-256", password),
        ("scram-sha-512", password),
        ("oauthbearer", &token),
    ] {
        let right = Proof { ca: "ca.crt", password };
        let app = app(&kafka, folder.path(), mechanism, &right);
        let server = app.begin_as(program(&right)).serving().unwrap();
        let mut client = server.connect();
        eventually("the broker takes a record", || {
            client.post("/a", "{\"n\":1}")?.is_success().then_some(())
        });
        assert!(check(&app, &right, "--print").0);
        assert!(check(&app, &right, "--sinks").0);
        // The sink has only one of these brokers. Another mechanism wrote another topic before, which the
        // audit reports.
        let audited = format!("--kafka=127.0.0.1:1,{}", kafka.secure_address());
        let audit = program(&right).args(["audit", &audited]).current_dir(app.path()).output().unwrap();
        assert!(printed(&audit).contains("in topic"), "{mechanism}: {}", printed(&audit));
        let (_, log) = server.stop();
        assert!(!log.contains(password), "{log}");
        assert!(!kafka.read(&format!("{mechanism}.a")).is_empty());
    }
    let outdated = self::token(Duration::ZERO);
    for (mechanism, ca, password, told) in [
        ("plain", "ca.crt", "hunter2", "denies access"),
        ("scram-sha-512", "ca.crt", "hunter2", "denies access"),
        ("plain", "other.crt", "open-sesame", "certificate"),
        ("oauthbearer", "ca.crt", &*outdated, "denies access"),
    ] {
        let wrong = Proof { ca, password };
        let app = app(&kafka, folder.path(), mechanism, &wrong);
        let (is_well, text) = check(&app, &wrong, "--sinks");
        assert!(!is_well && text.contains(told), "{mechanism} {ca}: {text}");
    }
}
