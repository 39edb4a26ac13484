//! `tollgate load --from kafka://` and `tollgate audit --kafka`, with the topics that a server wrote.

use serde_json::Value;

use super::site::{Site, item};
use crate::cluster::shared;
use crate::database_faults::{Database, LockHolder};
use crate::program::{App, eventually, printed};

/// A server with a keyed stream, another stream, and columns of every kind.
const CONFIG: &str = r#"
[stream.orders]
key = "request.header.idempotency-key"
ack = "queued"
ack_timeout = "60s"
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "price", type = "decimal(12,2)", from = "record.price" },
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "extra", type = "json", from = "record.extra" },
  { name = "log", type = "uuid", from = "log.id" },
]
[[route]]
path = "/orders"
collect = true
stream = "orders"
[sink.bus]
kafka = "BROKER"
topic = "shop.{stream}"
partitions = 3
duplicates = "keep"
"#;

/// Sends an order with a key.
fn order(client: &mut crate::client::Client, key: &str, n: i64) {
    let body = format!("{{\"n\":{n},\"price\":\"12.50\",\"extra\":{{\"big\":9007199254740993}}}}");
    let length = body.len();
    let request = format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    assert!(client.send(&request));
    let reply = client.reply().unwrap();
    assert!(reply.is_success(), "{reply:?}");
}

#[test]
fn rows_of_both_formats_reach_sqlite_and_postgresql_once_with_their_types() {
    let site = Site::bare();
    let config = CONFIG.replace("BROKER", &site.kafka.address());
    let app = App::new(&config, &[]);
    // Half of the rows are objects, and half are rows as the log has them.
    for (format, numbers) in [("json", 0..100), ("row", 100..200)] {
        app.configure(&format!("{config}format = \"{format}\"\n"));
        let server = app.start();
        let mut client = server.connect();
        for n in numbers {
            order(&mut client, &format!("k-{n}"), n);
        }
        // A retry is in the topic twice, and in a database once.
        order(&mut client, "k-7", 7);
        let status: Value = app.succeed(&["status", "--json"]).parse().unwrap();
        let note = "retries with the same key appear twice, because duplicates is \"keep\"";
        assert_eq!(status["sinks"][0]["notes"], serde_json::json!([note]));
        let screen = app.succeed(&["status"]);
        assert!(screen.contains(&format!("sink bus: {note}")), "{screen}");
    }
    let rows = site.kafka.read("shop.orders");
    let formatted = rows.iter().filter(|row| row.headers.contains_key("tollgate-format")).count();
    assert_eq!((rows.len(), formatted), (202, 101));
    let audited = format!("--kafka={}", site.kafka.address());
    let sent = app.succeed(&["audit", "--json", &audited]);
    let whole = sent.lines().filter(|log| log.contains("\"sent\":101") && log.contains("\"in_topic\":101"));
    assert_eq!(whole.count(), 2, "{sent}");
    let database = shared().database();
    let postgres = format!("[sink.shop]\npostgres = \"{}\"\n", shared().url(&database));
    let place = site.place();
    let loaded = "sum(n), count(DISTINCT log), min(price), max(price)";
    for (kind, config) in [("sqlite", ""), ("postgres", &postgres)] {
        let reader = App::new(config, &[]);
        for (run, told) in [(1, "200 rows, 0 rejects, 2 duplicates, 0 missing"), (2, "0 rows")] {
            let output = reader.run(&["load", "--once", "--from", &place]);
            let text = printed(&output);
            assert!(output.status.success() && text.contains(told), "{kind}, run {run}: {text}");
        }
        let ask = |sql: &str| reader.succeed(&["sql", "--format", "csv", sql]);
        let counts = ask(&format!("SELECT count(*), {loaded} FROM orders"));
        assert!(counts.ends_with("\n200,19900,2,12.50,12.50\n"), "{kind}: {counts}");
        let extra = ask("SELECT extra FROM orders WHERE n = 7");
        assert!(extra.contains("9007199254740993"), "{kind}: {extra}");
        let audit = reader.succeed(&["audit", &audited]);
        assert!(audit.contains("no row is missing or doubled"), "{kind}: {audit}");
        // The offsets of a topic have holes, which are no records.
        let plain = reader.run(&["audit"]);
        assert!(plain.status.success(), "{kind}: {}", printed(&plain));
    }
}

#[test]
fn a_loader_of_topics_shows_its_rows_and_an_absent_broker() {
    let mut site = Site::new("60s", "");
    let (server, mut client) = site.start();
    for n in 0..50 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
    }
    let reader = App::new("[load]\nlag_max = \"1s\"\n", &[]);
    let loader = reader.follow(&["load", "--from", &site.place()]);
    let status = || serde_json::from_slice::<Value>(&reader.run(&["status", "--json"]).stdout).ok();
    // The site sent records of its own before.
    let rows = eventually("all rows are loaded", || {
        let sink = status()?["sinks"][0].clone();
        let is_loaded = sink["state"] == "caught up" && reader.query::<i64>("SELECT n FROM a").len() > 50;
        is_loaded.then(|| sink["rows"].as_i64()).flatten()
    });
    assert_eq!(rows as usize, reader.query::<i64>("SELECT n FROM a").len());
    let document = status().unwrap();
    assert_eq!(document["topics"]["brokers"], *site.kafka.address());
    assert_eq!(document["config"]["sink_count"], 1);
    assert_eq!((&document["phase"], &document["ready"]), (&"loading".into(), &true.into()));
    let screen = reader.succeed(&["status"]);
    assert!(screen.contains("topics") && screen.contains(&site.kafka.address()), "{screen}");
    assert!(screen.contains(" version 1") && !screen.contains("()"), "{screen}");
    site.kafka.kill();
    let warning = eventually("the absent broker is a finding", || {
        let document = status()?;
        let codes = document["warnings"].as_array()?.iter();
        codes.clone().find(|finding| finding["code"] == "sink_failing").cloned()
    });
    assert!(warning["text"].as_str().unwrap().contains("does not answer"), "{warning}");
    site.kafka.run();
    eventually("the loader loads again", || {
        let sink = status()?["sinks"][0].clone();
        (sink["state"] == "caught up" && sink["failing_seconds"] == 0.0).then_some(())
    });
    drop((loader, server));
}

#[test]
fn a_loader_of_topics_waits_for_a_locked_table_and_does_not_count_as_stalled() {
    let site = Site::new("60s", "");
    let (server, mut client) = site.start();
    let database = Database::postgres();
    let reader = App::new(&format!("[sink.main]\n{}lock_timeout = \"1h\"\n", database.keys()), &[]);
    let loader = reader.follow(&["load", "--from", &site.place()]);
    let status = || serde_json::from_slice::<Value>(&reader.run(&["status", "--json"]).stdout).ok();
    eventually("rows are loaded", || {
        (status()?["sinks"][0]["rows"].as_u64().unwrap_or_default() > 0).then_some(())
    });
    let holder = LockHolder::lock(&database, "a", "EXCLUSIVE");
    assert!(client.post("/a", &item(1)).unwrap().is_success());
    let has = |document: &Value, code: &str| {
        document["warnings"].as_array().unwrap().iter().any(|finding| finding["code"] == code)
    };
    let document = eventually("the wait is a finding", || {
        let document = status()?;
        has(&document, "sink_waiting").then_some(document)
    });
    assert!(!has(&document, "sink_stalled"), "{document}");
    assert_eq!(document["sinks"][0]["state"], "loading", "{document}");
    drop(holder);
    let (cluster, name) = database.cluster();
    let count = "SELECT count(*) FROM a WHERE n = 1";
    eventually("the row is loaded", || (cluster.sql(name, count) == "1").then_some(()));
    eventually("the wait is over", || (!has(&status()?, "sink_waiting")).then_some(()));
    drop((loader, server));
}

#[test]
fn deleted_records_of_a_topic_are_a_named_gap_and_foreign_ones_are_rejects() {
    let site = Site::new("60s", "");
    let (server, mut client) = site.start();
    let reader = App::new("", &[]);
    reader.succeed(&["load", "--once", "--from", &site.place()]);
    for n in 0..50 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
    }
    site.delete_records("tg.a");
    assert!(client.post("/a", &item(50)).unwrap().is_success());
    site.produce("tg.a", "not ours");
    let output = reader.run(&["load", "--once", "--from", &site.place()]);
    let text = printed(&output);
    assert!(!output.status.success(), "a gap is a failure");
    assert!(text.contains("the topic deleted offsets") && text.contains("of tg.a/"), "{text}");
    assert!(text.contains("1 row, 1 reject"), "{text}");
    assert_eq!(reader.query::<i64>("SELECT n FROM a WHERE n >= 0"), [50]);
    let reason = reader.query::<String>("SELECT reason FROM tollgate_rejects");
    assert!(reason.len() == 1 && reason[0].contains("no headers of Tollgate"), "{reason:?}");
    let audit = reader.run(&["audit", &format!("--kafka={}", site.kafka.address())]);
    let text = printed(&audit);
    assert!(!audit.status.success() && text.contains("missing:"), "{text}");
    drop(server);
}

#[test]
fn records_that_were_loaded_before_their_topic_deleted_them_are_not_missing() {
    let site = Site::new("60s", "");
    let (server, mut client) = site.start();
    for n in 0..20 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
    }
    let reader = App::new("", &[]);
    for _ in 0..2 {
        reader.succeed(&["load", "--once", "--from", &site.place()]);
        // The end of a transaction follows the last row of a partition.
        site.delete_records("tg.a");
    }
    assert_eq!(reader.query::<i64>("SELECT count(*) FROM a WHERE n >= 0"), [20]);
    drop(server);
}

#[test]
fn a_record_with_an_unknown_schema_or_format_is_a_reject_and_stops_nothing() {
    let site = Site::new("60s", "");
    let (server, mut client) = site.start();
    let head =
        |schema: &str| format!("tollgate-log:{},tollgate-seq:9,tollgate-stream:a,{schema}", "0".repeat(32));
    site.produce_with("tg.a", &head("tollgate-schema:"), "{}");
    site.produce_with("tg.a", &head("tollgate-schema:0123456789abcdef"), "{}");
    site.produce_with("tg.a", &head("tollgate-schema:1,tollgate-format:avro"), "{}");
    assert!(client.post("/a", &item(7)).unwrap().is_success());
    let reader = App::new("", &[]);
    reader.succeed(&["load", "--once", "--from", &site.place()]);
    assert_eq!(reader.query::<i64>("SELECT n FROM a WHERE n > 0"), [7]);
    let reasons = reader.query::<String>("SELECT reason FROM tollgate_rejects");
    let count = |text: &str| reasons.iter().filter(|reason| reason.contains(text)).count();
    assert_eq!((count("are not in Kafka"), count("\"avro\""), reasons.len()), (2, 1, 3), "{reasons:?}");
    drop(server);
}

#[test]
fn without_brokers_or_databases_the_command_names_what_is_wrong() {
    let reader = App::new("", &[]);
    let no_broker = reader.run(&["load", "--once", "--from", "kafka://"]);
    assert!(printed(&no_broker).contains("kafka://HOST:9092"), "{}", printed(&no_broker));
    let with_topic = reader.run(&["load", "--once", "--from", "kafka://h:1/topic"]);
    let text = printed(&with_topic);
    assert!(text.contains("address is \"h:1/topic\", needed is host:port"), "{text}");
    assert_eq!(with_topic.status.code(), Some(2), "{text}");
    let no_sink = reader.run(&["audit", "--kafka"]);
    assert!(printed(&no_sink).contains("--kafka=HOST:9092"), "{}", printed(&no_sink));
}

#[test]
fn a_database_that_loads_the_log_gets_no_rows_of_its_topics() {
    let site = Site::new("60s", "");
    let config = std::fs::read_to_string(site.app.path().join("tollgate.toml")).unwrap();
    site.app.write("tollgate.toml", &format!("{config}[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n"));
    let (server, mut client) = site.start();
    for n in 0..5 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
    }
    let loaded = || site.app.query::<i64>("SELECT n FROM a WHERE n >= 0").len();
    eventually("the server loads", || (loaded() == 5).then_some(()));
    let output = site.app.run(&["load", "--once", "--from", &site.place()]);
    let text = printed(&output);
    assert!(!output.status.success() && text.contains("sink main loads log "), "{text}");
    assert!(text.contains("load the topics into a database of their own"), "{text}");
    assert_eq!(loaded(), 5);
    server.kill();
}

#[test]
fn a_sink_of_another_name_in_the_database_of_a_server_gets_no_rows_of_its_topics() {
    let site = Site::new("60s", "");
    let config = std::fs::read_to_string(site.app.path().join("tollgate.toml")).unwrap();
    let sqlite = format!("sqlite = {:?}\n", site.app.path().join("data/tollgate.sqlite"));
    let (cluster, name) = (shared(), shared().database());
    let postgres = format!("postgres = \"{}\"\n", cluster.url(&name));
    site.app.write("tollgate.toml", &format!("{config}[sink.lite]\n{sqlite}[sink.main]\n{postgres}"));
    let (server, mut client) = site.start();
    for n in 0..5 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
    }
    let count = "SELECT count(*) FROM a WHERE n >= 0";
    let in_sqlite = || site.app.query::<i64>(count);
    let in_postgres = || cluster.sql(&name, count);
    eventually("the server loads", || (in_sqlite() == [5] && in_postgres() == "5").then_some(()));
    for (keys, owner) in [(&sqlite, "lite"), (&postgres, "main")] {
        let reader = App::new(&format!("[sink.topics]\n{keys}"), &[]);
        let output = reader.run(&["load", "--once", "--from", &site.place()]);
        let text = printed(&output);
        let told = format!("sink topics is stopped: sink {owner} loads log ");
        assert!(!output.status.success() && text.contains(&told), "{text}");
    }
    assert_eq!((in_sqlite(), in_postgres()), (vec![5], "5".to_owned()));
    server.kill();
}

#[test]
fn a_single_load_names_the_partition_whose_rows_an_open_transaction_hides() {
    let site = Site::new("60s", "");
    let (server, mut client) = site.start();
    assert!(client.post("/a", &item(0)).unwrap().is_success());
    let mut other = site.open_transaction("tg.a");
    for n in 1..20 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
    }
    let bus = format!(
        "[sink.bus]\nkafka = {:?}\nrequest_timeout = \"2s\"\ndelivery_timeout = \"3s\"\n\
         transaction_timeout = \"4s\"\n",
        site.kafka.address()
    );
    let reader = App::new(&format!("{bus}[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n"), &[]);
    let load = ["load", "--once", "--from", &site.place()];
    let output = reader.run(&load);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("not visible yet: tg.a/"), "{text}");
    assert!(text.contains("the load waits for the end of an open transaction"), "{text}");
    let loaded = "SELECT n FROM a WHERE n >= 0 ORDER BY n";
    assert_eq!(reader.query::<i64>(loaded), [0]);
    other.abort().unwrap();
    let text = reader.succeed(&load);
    assert_eq!(reader.query::<i64>(loaded), (0..20).collect::<Vec<_>>(), "{text}");
    drop(server);
}
