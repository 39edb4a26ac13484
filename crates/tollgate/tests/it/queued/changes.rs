//! Topics after a change of the configuration: new columns, and another topic.

use super::site::Site;
use crate::program::{App, printed};

/// A server whose stream has these columns, and whose sink has these keys.
fn config(site: &Site, columns: &[&str], sink: &str) -> String {
    let column = |name: &&str| format!("{{ name = \"{name}\", type = \"text\", from = \"record.{name}\" }}");
    let columns: Vec<_> = columns.iter().map(column).collect();
    format!(
        "[stream.a]\nack = \"queued\"\nack_timeout = \"60s\"\ncolumns = [{}]\n[[route]]\npath = \"/a\"\n\
         collect = true\nstream = \"a\"\n[sink.bus]\nkafka = \"{}\"\n{sink}\n",
        columns.join(", "),
        site.kafka.address()
    )
}

/// Loads the topics into a database of its own. Returns the rows of a query.
fn loaded(site: &Site, sql: &str) -> Vec<String> {
    let reader = App::new("", &[]);
    reader.succeed(&["load", "--once", "--from", &site.place()]);
    reader.query(sql)
}

#[test]
fn a_retried_reject_has_the_columns_that_the_configuration_has_now() {
    let site = Site::bare();
    for format in ["json", "row"] {
        let sink = format!("topic = \"{format}.{{stream}}\"\nformat = \"{format}\"");
        let app = App::new(&config(&site, &["n"], &sink), &[]);
        let server = app.start();
        let mut client = server.connect();
        let refused = client.post("/a", r#"{"n":"second","z":"kept"}"#).unwrap();
        assert_eq!(refused.status, 422, "{refused:?}");
        if format == "json" {
            // In the other round the topic has no row before the retry.
            assert!(client.post("/a", r#"{"n":"first"}"#).unwrap().is_success());
        }
        drop(client);
        drop(server);
        app.succeed(&["load", "--once"]);
        app.configure(&config(&site, &["n", "z"], &sink));
        let retried = app.run(&["load", "--retry-rejects"]);
        assert!(printed(&retried).contains("1 reject became rows"), "{}", printed(&retried));
    }
    let rows = loaded(&site, "SELECT n || ' ' || coalesce(z, 'null') FROM a ORDER BY n");
    assert_eq!(rows, ["first null", "second kept", "second kept"]);
}

#[test]
fn a_reload_changes_the_topic_and_takes_only_brokers_of_the_same_cluster() {
    let site = Site::bare();
    let app = App::new(&config(&site, &["n"], "topic = \"first.{stream}\""), &[]);
    let server = app.start();
    let post = |n: &str| {
        let reply = server.connect().post("/a", &format!("{{\"n\":\"{n}\"}}")).unwrap();
        assert!(reply.is_success(), "{reply:?}");
    };
    post("before");
    let second = config(&site, &["n"], "topic = \"second.{stream}\"");
    let known = site.kafka.address();
    app.configure(&second.replace(&known, &format!("{known},localhost:1")));
    app.succeed(&["reload"]);
    post("after");
    app.configure(&second.replace(&known, "localhost:2"));
    let refused = app.run(&["reload"]);
    let told = format!(
        "[sink.bus] has other brokers now: kafka://{known},localhost:1 -> kafka://localhost:2. Its positions \
         are at the present place"
    );
    assert!(!refused.status.success() && printed(&refused).contains(&told), "{}", printed(&refused));
    drop(server);
    let values = |topic: &str| site.kafka.read(topic).into_iter().map(|row| row.value).collect::<Vec<_>>();
    assert_eq!(values("first.a"), [r#"{"n":"before"}"#]);
    assert_eq!(values("second.a"), [r#"{"n":"after"}"#]);
}

#[test]
fn a_loader_finds_the_topics_that_a_sink_had_before_and_those_of_other_sinks() {
    let site = Site::bare();
    let app = App::new(&config(&site, &["n"], "topic = \"old.{stream}\""), &[]);
    let post = |n: &str| {
        let server = app.start();
        let reply = server.connect().post("/a", &format!("{{\"n\":\"{n}\"}}")).unwrap();
        assert!(reply.is_success(), "{reply:?}");
    };
    post("old");
    app.configure(&config(&site, &["n"], "topic = \"new.{stream}\""));
    post("new");
    let other =
        App::new(&config(&site, &["n"], "topic = \"other.{stream}\"").replace("sink.bus", "sink.b"), &[]);
    let server = other.start();
    assert!(server.connect().post("/a", r#"{"n":"other"}"#).unwrap().is_success());
    drop(server);
    assert_eq!(loaded(&site, "SELECT n FROM a ORDER BY n"), ["new", "old", "other"]);
    let audit = app.run(&["audit", &format!("--kafka={}", site.kafka.address())]);
    assert!(audit.status.success(), "{}", printed(&audit));
}
