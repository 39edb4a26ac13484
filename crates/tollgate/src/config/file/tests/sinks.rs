//! Sinks: any number of them, each with the keys of its kind.

use super::super::super::sink::SinkConfig;
use super::*;

#[test]
fn faults_of_sinks_are_told() {
    let needed = |found| {
        format!(
            "needs one database, found {found}, allowed is one of sqlite, postgres, kafka, parquet, iceberg"
        )
    };
    check("[sink.main]\n", &[&format!("t.toml:1:1: [sink.main] {}", needed("none"))]);
    check(
        "[sink.main]\nsqlite = \"a\"\n[sink.\"b c\"]\nsqlit = \"x\"\n",
        &[
            &format!("t.toml:3:1: [sink.b c] {}", needed("none")),
            "t.toml:3:7: sink is named \"b c\", allowed is a letter or _, then letters, digits and _, at most 63 bytes",
            "t.toml:4:1: unknown key \"sqlit\" in [sink.b c], did you mean \"sqlite\"?",
        ],
    );
    let text = load("[sink.main]\nsqlite = \"a\"\nqqqqqq = 1\n").unwrap_err().to_string();
    let allowed = text.split_once("unknown key \"qqqqqq\" in [sink.main], allowed: ").unwrap().1;
    assert!(allowed.contains("kafka, parquet, iceberg, "), "{text}");
    let both = "[sink.main]\nsqlite = \"a\"\npostgres = \"host=h user=u\"\nafter_load = \"none.sql\"\n";
    check(
        both,
        &[
            &format!("t.toml:1:1: [sink.main] {}", needed("sqlite and postgres")),
            "t.toml:4:14: after_load is none.sql, which is not a file",
        ],
    );
    check(
        &format!(
            "{SCORES}[sink.a]\nsqlite = \"x.db\"\nfrom = \"new\"\n[sink.b]\nsqlite = \"x.db\"\nstreams = [\"score\"]\n\
             [sink.c]\nsqlite = \"y.db\"\nstreams = []\n[load]\nin_server = 1\n"
        ),
        &[
            "t.toml:5:8: from in [sink.a] is \"new\", did you mean \"now\"?",
            "t.toml:7:10: sqlite in [sink.b] is the file of [sink.a]: each sink needs its own file",
            "t.toml:8:12: unknown stream \"score\" in [sink.b], did you mean \"scores\"?",
            "t.toml:11:11: streams in [sink.c] is empty, allowed is a list of streams: remove the key for \
             all streams",
            "t.toml:13:13: in_server in [load] is the integer 1, allowed is true or false",
        ],
    );
}

#[test]
fn sinks_are_any_number_each_with_its_streams() {
    let text = format!(
        "{SCORES}[load]\nin_server = false\nlag_max = \"2s\"\n[sink.b]\nsqlite = \"b.db\"\nstreams = [\"scores\"]\nfrom = \"now\"\n\
         [sink.a]\nsqlite = \"a.db\"\n"
    );
    let config = load(&text).unwrap();
    let names: Vec<_> = config.sinks.iter().map(SinkConfig::name).collect();
    assert_eq!(names, ["b", "a"]);
    let printed = config.to_string();
    assert!(printed.contains("\n[load]\nin_server = false\nlag_max = \"2s\"\n"), "{printed}");
    assert!(
        printed.contains("b.db\"\nstreams = [\"scores\"]\nfrom = \"now\"\nrejects_max = 1000\n\n[sink.a]"),
        "{printed}"
    );
    let taken = &config.sinks[0].options.taken;
    assert!(taken.takes("scores") && !taken.takes("other"));
}

#[test]
fn sinks_may_share_a_postgresql() {
    let sink = |name: &str| format!("[sink.{name}]\npostgres = \"host=h user=u\"\n");
    check(&format!("{}{}", sink("a"), sink("b")), &[]);
}

#[test]
fn faults_of_a_postgresql_sink_show_no_password() {
    check(
        "[sink.main]\npostgres = \"postgres://u:secret@h/d?sslmode=full\"\n",
        &[
            "t.toml:2:12: postgres in [sink.main]: sslmode is \"full\", allowed are disable, prefer, require, verify-ca, verify-full",
        ],
    );
    check(
        &format!(
            "{SCORES}[sink.main]\npostgres = \"postgres://u:sec@ret@h/d?port=x\"\nlock_timeout = \"0s\"\n\
             tables = {{ scores = \"a..b\", score = \"a.b\" }}\n"
        ),
        &[
            "t.toml:4:12: postgres in [sink.main]: invalid connection string: invalid value for option `port`",
            "t.toml:5:16: lock_timeout in [sink.main] is \"0s\", allowed is a duration from 1ms to 24h like \"10s\", units ms, s, m, h",
            "t.toml:6:21: table of stream \"scores\" is \"a..b\": name \"\" has 0 bytes, allowed are 1 to 63 without U+0000",
            "t.toml:6:37: unknown stream \"score\" in tables of [sink.main], did you mean \"scores\"?",
        ],
    );
    check(
        "[sink.main]\npostgres = \"postgres://h/d\"\n",
        &[
            "t.toml:2:12: postgres in [sink.main]: the address has no user, needed are both, like \"postgres://USER@HOST/DATABASE\"",
        ],
    );
}

#[test]
fn a_postgresql_sink_prints_without_its_password_and_reads_back() {
    let dir = app();
    let file = dir.path().join("t.toml");
    let with_url = |name: &str| match name {
        "DATABASE_URL" => Some("postgres://me:secret@db:5433/app".to_owned()),
        _ => None,
    };
    let text = |url: &str| {
        format!("{SCORES}[sink.main]\npostgres = \"{url}\"\ntables = {{ scores = '\"My Web\".v' }}\n")
    };
    for (url, shown) in [
        ("${DATABASE_URL}", "postgres = \"${DATABASE_URL}\"\n"),
        ("postgres://me:secret@db:5433/app", "postgres = \"postgres://me:***@db:5433/app\"\n"),
    ] {
        let config = resolve(&file, &text(url), &with_url).unwrap();
        let printed = config.to_string();
        assert!(printed.contains(shown), "{printed}");
        assert!(printed.contains("schema = \"tollgate\"\ntable_schema = \"public\"\n"), "{printed}");
        assert!(!format!("{printed} {config:?} {}", config.sinks[0]).contains("secret"));
        assert_eq!(config.sinks[0].to_string(), "me@db:5433/app");
        assert_eq!(resolve(&file, &printed, &with_url).unwrap().to_string(), printed);
    }
}

#[test]
fn a_sqlite_sink_is_no_folder() {
    let folder = |path: &str| {
        format!("t.toml:4:10: sqlite in [sink.main] is \"{path}\", a folder: allowed is the path of a file")
    };
    let text = |path: &str| format!("[log]\ndir = \"logs\"\n[sink.main]\nsqlite = \"{path}\"\n");
    check(&text("."), &[&folder(".")]);
    check(&text("logs"), &[&folder("logs")]);
    check(&text("logs.sqlite"), &[]);
}

#[test]
fn a_parquet_sink_prints_its_place_and_reads_back() {
    let dir = app();
    let file = dir.path().join("t.toml");
    let text = "[sink.lake]\nparquet = \"lake\"\nfile_age = \"1m\"\nduplicates = \"keep\"\n";
    let printed = resolve(&file, text, &env).unwrap().to_string();
    let lake = dir.path().join("lake");
    assert!(printed.contains(&format!("parquet = {:?}", lake.display().to_string())), "{printed}");
    assert!(!printed.contains("endpoint") && !printed.contains("parts_dir"), "{printed}");
    assert_eq!(resolve(&file, &printed, &env).unwrap().to_string(), printed);
}

#[test]
fn what_files_cannot_do_is_a_fault_of_a_parquet_sink() {
    let stream = "[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
    let keyed = "[stream.s]\nkey = \"request.id\"\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
    let sink = "[sink.lake]\nparquet = \"lake\"\n";
    check(&format!("{keyed}{sink}duplicates = \"keep\"\n"), &[]);
    check(
        &format!("{keyed}{sink}"),
        &["t.toml:4:1: [sink.lake] takes [stream.s], which has a key: Parquet files cannot find the rows \
             of a retry. Set duplicates = \"keep\" in the sink, or take the stream from its streams"],
    );
    check(
        &format!("{stream}{sink}after_load = \"t.toml\"\n"),
        &[
            "t.toml:5:14: after_load in [sink.lake] needs a database",
            "t.toml:5:14: after_load is t.toml, which is not a file",
        ],
    );
    check(
        &format!("{stream}{sink}[sink.two]\nparquet = \"lake\"\n"),
        &["t.toml:6:11: parquet in [sink.two] is the place of [sink.lake]: each sink needs its own place"],
    );
    check(
        &format!("{stream}{sink}region = \"x\"\n"),
        &["t.toml:5:10: region in [sink.lake] needs a store, found a folder"],
    );
    check(
        &format!("{}{sink}", stream.replace("[stream.s]", "[stream._tollgate]")),
        &["t.toml:3:1: [sink.lake] takes [stream._tollgate]: stream \"_tollgate\" cannot be a table: the \
             folder _tollgate has the plans and commits of the sink, rename the stream"],
    );
    let named = stream.replace("\"n\"", "\"Day\"");
    check(
        &format!("{named}{sink}"),
        &["t.toml:3:1: [sink.lake] takes [stream.s]: column \"Day\" of table \"s\" has a name that files \
             of Parquet use for the key, the log, the number or the day of the record: rename the column"],
    );
    check(&format!("{named}{sink}streams = [\"t\"]\n{}", stream.replace("[stream.s]", "[stream.t]")), &[]);
    let acked = stream.replace("columns", "ack = \"loaded\"\ncolumns");
    check(
        &format!("{acked}{sink}"),
        &["t.toml:2:7: ack of [stream.s] is \"loaded\", but sink \"lake\" writes Parquet files of whole \
             segments: use a sink with a database, or another level"],
    );
}

#[test]
fn the_place_of_a_sink_is_not_inside_of_another_place() {
    let check_places = |one: &str, two: &str, shown: Option<(&str, &str)>| {
        let text = format!("[sink.one]\nparquet = {one:?}\n[sink.two]\nparquet = {two:?}\n");
        let fault = shown.map(|(one, two)| {
            format!(
                "t.toml:4:11: parquet in [sink.two] is {two}, and [sink.one] has {one}, one inside of the \
                 other: readers of the outer place would count rows twice, choose separate places"
            )
        });
        check(&text, &fault.iter().map(String::as_str).collect::<Vec<_>>());
    };
    for (one, two) in
        [("lake", "lake/v"), ("lake/v", "lake"), ("lake", "lake/_tollgate"), ("lake/", "a/../lake/v/w")]
    {
        check_places(one, two, Some((one, two)));
    }
    check_places("lake", "lake2", None);
    check_places("lake/a", "lake/b", None);
    check_places("s3://b/p", "s3://b/p/q", Some(("s3://b/p", "s3://b/p/q")));
    check_places("s3://b/p/q", "s3://b", Some(("s3://b/p/q", "s3://b")));
    check_places("s3://b/p", "s3://b/pq", None);
    check_places("s3://b/p", "s3://c/p", None);
    check_places("s3://b/p", "gs://b/p/q", None);
    let tables = "[sink.two]\niceberg = { catalog = \"c\", warehouse = \"lake/v\" }\n";
    check(
        &format!("[sink.one]\nparquet = \"lake\"\n{tables}"),
        &["t.toml:4:11: iceberg in [sink.two] is lake/v, and [sink.one] has lake, one inside of the other: \
             readers of the outer place would count rows twice, choose separate places"],
    );
}

#[test]
fn the_brokers_and_the_topic_of_a_kafka_sink_are_checked() {
    let check = |brokers: &str, topic: &str, expected: &str| {
        let stream = "[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
        let text = format!("{stream}[sink.bus]\nkafka = {brokers:?}\ntopic = {topic:?}\n");
        check(&text, &if expected.is_empty() { vec![] } else { vec![expected] });
    };
    check("b:1,[::1]:9092", "t-{stream}.x_1", "");
    for brokers in ["", "127.0.0.1", "b:0", "b:65536", "b:1,c", "b:1/topic"] {
        let found = brokers.rsplit(',').next().unwrap();
        let told = format!(
            "t.toml:4:9: kafka in [sink.bus]: address is {found:?}, needed is host:port, with a port \
             from 1 to 65535"
        );
        check(brokers, "t", &told);
    }
    let long = "x".repeat(249);
    for (topic, told) in [
        ("", "\"\", which no topic may be named"),
        (".", "\".\", which no topic may be named"),
        ("..", "\"..\", which no topic may be named"),
        ("__tollgate_positions", "\"__tollgate_positions\", which the sink needs for itself"),
        ("__consumer_offsets", "\"__consumer_offsets\", which the brokers need for themselves"),
        ("__tollgate_reject{stream}", "\"__tollgate_rejects\", which the sink needs for itself"),
        (&*format!("{long}{{stream}}"), &*format!("\"{long}s\" of 250 bytes, limit 249 bytes")),
        ("a b", "\"a b\", allowed are letters, digits, `.`, `_` and `-`"),
    ] {
        check("b:1", topic, &format!("t.toml:5:9: topic in [sink.bus] makes the topic {told}: change it"));
    }
    check("b:1", &long, "");
}

#[test]
fn each_mechanism_of_kafka_needs_its_own_proof() {
    let stream = "[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
    let sink = "[sink.bus]\nkafka = \"b:1\"\n";
    let user = "sasl_user = \"u\"\nsasl_password = \"${SECRET}\"\n";
    let token = "sasl_token_file = \"token\"\n";
    for (proof, expected) in [
        (String::new(), None),
        (format!("sasl = \"plain\"\n{user}"), None),
        (format!("sasl = \"oauthbearer\"\n{token}"), None),
        (token.to_owned(), Some("sasl_user, sasl_password and sasl_token_file need sasl")),
        (
            format!("sasl = \"oauthbearer\"\n{user}"),
            Some("sasl = \"oauthbearer\" needs sasl_token_file, and neither sasl_user nor sasl_password"),
        ),
        (
            format!("sasl = \"scram-sha-256\"\n{user}{token}"),
            Some("sasl needs sasl_user and sasl_password, and no sasl_token_file"),
        ),
    ] {
        let told = expected.map(|told| format!("t.toml:3:1: {told}, in [sink.bus]"));
        let told: Vec<_> = told.iter().map(String::as_str).collect();
        check(&format!("{stream}{sink}{proof}"), &told);
    }
}

#[test]
fn an_iceberg_sink_prints_without_its_password_and_reads_back() {
    let dir = app();
    let file = dir.path().join("t.toml");
    let with_url = |name: &str| (name == "URL").then(|| "postgres://me:pa55@db/app".to_owned());
    for (catalog, shown) in [
        ("${URL}", "catalog = \"${URL}\"".to_owned()),
        ("postgres://me:pa55@db/app", "catalog = \"postgres://me:***@db/app\"".to_owned()),
        ("c.sqlite", format!("catalog = {:?}", dir.path().join("c.sqlite").display().to_string())),
    ] {
        let text = format!(
            "[sink.lake]\niceberg = {{ catalog = {catalog:?}, warehouse = \"lake\" }}\nfile_age = \"1m\"\n"
        );
        let config = resolve(&file, &text, &with_url).unwrap();
        let printed = config.to_string();
        let warehouse = format!("warehouse = {:?}", dir.path().join("lake").display().to_string());
        let rest = "namespace = \"tollgate\", catalog_name = \"tollgate\", partition = \"day\", \
                    snapshots_kept = \"5d\", orphans_kept = \"7d\" }\n";
        let line = format!("iceberg = {{ {shown}, {warehouse}, {rest}");
        assert!(printed.contains(&line), "{printed}");
        assert!(printed.contains("file_age = \"1m\"") && !printed.contains("endpoint"), "{printed}");
        assert!(!format!("{printed} {config:?} {}", config.sinks[0]).contains("pa55"));
        assert_eq!(resolve(&file, &printed, &with_url).unwrap().to_string(), printed);
    }
}

#[test]
fn faults_of_the_table_iceberg_have_the_value_found_and_the_allowed_ones() {
    let stream = "[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
    let sink = |keys: &str| {
        format!("{stream}[sink.lake]\niceberg = {{ catalog = \"c\", warehouse = \"w\"{keys} }}\n")
    };
    check(&sink(""), &[]);
    check(&sink(", snapshots_kept = \"forever\", orphans_kept = \"1h\", partition = \"none\""), &[]);
    check(
        &format!("{stream}[sink.lake]\niceberg = {{ warehouse = \"w\" }}\n"),
        &["t.toml:4:11: missing key \"catalog\" in iceberg of [sink.lake]"],
    );
    check(
        &sink(", namespace = \"a.b\""),
        &["t.toml:4:57: namespace in iceberg of [sink.lake] is \"a.b\", allowed are letters, digits and \
             _, at most 255 bytes"],
    );
    check(
        &sink(", orphans_kept = \"5m\""),
        &["t.toml:4:60: orphans_kept in iceberg of [sink.lake] is \"5m\", allowed is a duration \
           like \"7d\", 1h to 3650d, or \"forever\""],
    );
    check(
        &sink("").replace("\"c\"", "\"mysql://rest\""),
        &["t.toml:4:23: catalog in iceberg of [sink.lake]: it is the address of another service, allowed \
           is the path of a file, postgres://... or https://..."],
    );
    check(
        &sink("").replace("\"w\"", "\"az://c/p\""),
        &["t.toml:4:40: warehouse in iceberg of [sink.lake] is \"az://c/p\", allowed is a path, s3:// or \
           gs://: engines have no common address for Azure"],
    );
    for folder in ["a#b", "a/b?c"] {
        let text = format!(
            "t.toml:4:40: warehouse in iceberg of [sink.lake] is {folder}, allowed is a folder without \
             \"#\" and \"?\": engines cut the address of a file there, rename the folder"
        );
        check(&sink("").replace("\"w\"", &format!("{folder:?}")), &[&text]);
    }
    for name in ["_tollgate", "_Tollgate"] {
        let text = format!(
            "t.toml:4:57: namespace in iceberg of [sink.lake] is {name:?}, the folder of the plans and \
             commits of sinks: choose another name"
        );
        check(&sink(&format!(", namespace = {name:?}")), &[&text]);
    }
    for name in ["_time", "_Time", "_time_day", "_time_month", "_time_year"] {
        let text = format!(
            "t.toml:3:1: [sink.lake] takes [stream.s]: column {name:?} of table \"s\" has a name that \
             tables of \
             Iceberg use for the key, the log, the number, the time or the partition of the record: rename \
             the column"
        );
        check(&sink("").replace("\"n\"", &format!("{name:?}")), &[&text]);
    }
    // The faults of a sink of files are those of a Parquet sink.
    let acked = sink("").replace("columns", "ack = \"loaded\"\ncolumns");
    check(
        &acked,
        &["t.toml:2:7: ack of [stream.s] is \"loaded\", but sink \"lake\" writes Parquet files of whole \
             segments: use a sink with a database, or another level"],
    );
    let keyed = sink("").replace("columns", "key = \"request.id\"\ncolumns");
    check(&format!("{keyed}duplicates = \"keep\"\n"), &[]);
    check(
        &keyed,
        &["t.toml:4:1: [sink.lake] takes [stream.s], which has a key: Parquet files cannot find the rows \
             of a retry. Set duplicates = \"keep\" in the sink, or take the stream from its streams"],
    );
    check(
        &format!("{}[sink.two]\nparquet = \"w\"\n", sink("")),
        &["t.toml:6:11: parquet in [sink.two] is the place of [sink.lake]: each sink needs its own place"],
    );
    let other = |namespace: &str| {
        let tables = format!("catalog = \"c\", warehouse = \"w2\"{namespace}");
        format!("{}[sink.two]\niceberg = {{ {tables} }}\n", sink(""))
    };
    check(&other(", namespace = \"two\""), &[]);
    check(
        &other(""),
        &["t.toml:6:11: iceberg in [sink.two] has the catalog and the namespace of [sink.lake]: each sink \
             needs its own namespace"],
    );
}

#[test]
fn a_rest_catalog_prints_without_a_secret_and_reads_back() {
    let dir = app();
    let file = dir.path().join("t.toml");
    std::fs::write(dir.path().join("secret"), "sesame").unwrap();
    let secret = dir.path().join("secret");
    for (keys, shown) in [
        ("", String::new()),
        (", catalog_warehouse = \"main\"", ", catalog_warehouse = \"main\"".to_owned()),
        (", token_file = \"secret\"", format!(", token_file = {:?}", secret.display().to_string())),
        (
            ", client_id = \"me\", client_secret_file = \"secret\"",
            format!(", client_id = \"me\", client_secret_file = {:?}", secret.display().to_string()),
        ),
        (
            ", sigv4 = { region = \"eu-west-1\" }",
            ", sigv4 = { region = \"eu-west-1\", service = \"glue\" }".to_owned(),
        ),
    ] {
        let text = format!(
            "[sink.lake]\niceberg = {{ catalog = \"https://c/api/\", warehouse = \"lake\"{keys} }}\n"
        );
        let config = resolve(&file, &text, &|_: &str| None).unwrap();
        let printed = config.to_string();
        let warehouse = format!("warehouse = {:?}", dir.path().join("lake").display().to_string());
        let rest =
            "namespace = \"tollgate\", partition = \"day\", snapshots_kept = \"5d\", orphans_kept = \"7d\"";
        let line = format!("iceberg = {{ catalog = \"https://c/api/\", {warehouse}, {rest}{shown} }}\n");
        assert!(printed.contains(&line), "{printed}");
        assert!(!format!("{printed} {config:?}").contains("sesame"));
        let place = format!("{}, catalog https://c/api", dir.path().join("lake").display());
        assert_eq!(config.sinks[0].to_string(), place);
        assert_eq!(resolve(&file, &printed, &|_: &str| None).unwrap().to_string(), printed);
    }
}

#[test]
fn faults_of_a_rest_catalog_have_the_value_found_and_the_allowed_ones() {
    let stream = "[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
    let sink = |catalog: &str, keys: &str| {
        format!("{stream}[sink.lake]\niceberg = {{ catalog = \"{catalog}\", warehouse = \"w\"{keys} }}\n")
    };
    let rest = |keys: &str| sink("https://c", keys);
    check(&sink("http://127.0.0.1:8181", ""), &[]);
    let refused = |address: &str, reason: &str| {
        let text = format!("t.toml:4:23: catalog in iceberg of [sink.lake]: {reason}");
        check(&sink(address, ""), &[&text]);
    };
    refused("http://c", "the address is plain HTTP, which is allowed to loopback only, use https://");
    refused("https://me:sesame@c", "the address has a name or a password, allowed is https://HOST:PORT/PATH");
    refused("https://c/?warehouse=a", "the address has a query, allowed is https://HOST:PORT/PATH");
    check(
        &rest(", catalog_name = \"x\""),
        &["t.toml:4:68: catalog_name in iceberg of [sink.lake] needs a database, found a REST catalog: use \
           catalog_warehouse"],
    );
    check(
        &sink("c", ", token_file = \"t\""),
        &["t.toml:4:58: token_file in iceberg of [sink.lake] needs a REST catalog, found a database"],
    );
    check(
        &rest(", token_file = \"a.luau\", sigv4 = { region = \"r\" }"),
        &["t.toml:4:11: iceberg of [sink.lake] has two of token_file, client_id and sigv4, allowed is one"],
    );
    let incomplete = "t.toml:4:11: iceberg of [sink.lake] needs client_id and client_secret_file, or none of \
                      client_id, client_secret_file, scope and oauth2_url";
    for keys in [", client_id = \"x\"", ", client_secret_file = \"a.luau\"", ", scope = \"x\""] {
        check(&rest(keys), &[incomplete]);
    }
    check(
        &rest(", sigv4 = { service = \"a/b\" }"),
        &[
            "t.toml:4:61: missing key \"region\" in sigv4 of iceberg of [sink.lake]",
            "t.toml:4:73: service in sigv4 of iceberg of [sink.lake] is \"a/b\", allowed is a name of letters, \
             digits and -",
        ],
    );
    check(
        &rest(", sigv4 = { region = \"\" }"),
        &["t.toml:4:72: region in sigv4 of iceberg of [sink.lake] is \"\", allowed is a name of letters, \
           digits and -"],
    );
    for address in ["https://c/v1", "https://c/api/v1/"] {
        let text = "to which the program adds /v1/config: remove /v1";
        check(
            &sink(address, ""),
            &[&format!("t.toml:4:23: catalog in iceberg of [sink.lake] is \"{address}\", {text}")],
        );
    }
    check(&sink("https://c/v1/api", ""), &[]);
    for (keys, key, place) in [
        (", token_file = \"/nope\"", "token_file", 66),
        (", catalog_ca_file = \"/nope\"", "catalog_ca_file", 71),
        (", client_id = \"me\", client_secret_file = \"/nope\"", "client_secret_file", 92),
    ] {
        let text = "which is not a file: create it, or correct the path";
        check(&rest(keys), &[&format!("t.toml:4:{place}: {key} in iceberg of [sink.lake] is /nope, {text}")]);
    }
    // Each sink has its own namespace, with whatever token.
    let two =
        "[sink.two]\niceberg = { catalog = \"https://c/\", warehouse = \"w2\", token_file = \"a.luau\" }\n";
    check(
        &format!("{}{two}", rest("")),
        &["t.toml:6:11: iceberg in [sink.two] has the catalog and the namespace of [sink.lake]: each sink \
             needs its own namespace"],
    );
}
