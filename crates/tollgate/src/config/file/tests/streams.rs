//! Streams: columns, their rules, keys, and the ack level of their replies.

use super::*;

#[test]
fn more_streams_than_a_batch_of_the_log_takes_twice_are_refused() {
    let many = |count: usize| {
        let stream = |n| format!("[stream.s{n}]\ncolumns = [{{ name = \"n\", type = \"int\" }}]\n");
        (0..count).map(stream).collect::<String>()
    };
    check(&many(513), &["t.toml:1:1: 513 streams are declared, limit 512"]);
    check(
        &format!("{}[stream.s]\ncolumns = []\n", many(511)),
        &["t.toml:1024:11: [stream.s] has 0 columns, allowed are 1 to 1000"],
    );
}

#[test]
fn faults_of_streams_are_told() {
    check("[stream.s]\n", &["t.toml:1:1: missing key \"columns\" in [stream.s]"]);
    check("[stream.s]\ncolumns = []\n", &["t.toml:2:11: [stream.s] has 0 columns, allowed are 1 to 1000"]);
    check(
        "[stream.s]\ncolumns = [\"a\"]\nack = \"sync\"\nunknown = \"drop\"\n",
        &[
            "t.toml:2:11: [stream.s] has 0 columns, allowed are 1 to 1000",
            "t.toml:2:12: columns in [stream.s] is the string \"a\", allowed is a table { ... }",
            "t.toml:3:7: ack in [stream.s] is \"sync\", did you mean \"synced\"?",
            "t.toml:4:11: unknown in [stream.s] is \"drop\", allowed: reject, ignore",
        ],
    );
    check(
        r#"[stream.s]
columns = [
  { name = "a", type = "integer" },
  { name = "A", type = "int" },
  { name = "", type = "int" },
  { name = "b", type = "text", from = "request.tme" },
  { name = "c", type = "text", from = "request.time" },
  { name = "d", type = "bool", from = "request.id" },
  { name = "e", type = "timestamp", from = 1 },
  { name = "B", type = "int" },
  { name = "E", type = "float" },
  { name = "e", type = "float" },
]
"#,
        &[
            "t.toml:3:24: unknown type \"integer\", allowed: bool, int, float, text, bytes, timestamp, json, \
             uuid, inet, decimal, date, time",
            "t.toml:5:12: column is named \"\", allowed are 1 to 63 bytes without control characters",
            "t.toml:6:39: unknown source \"request.tme\", did you mean \"request.time\"?",
            "t.toml:7:24: type is \"text\", allowed with request.time: timestamp",
            "t.toml:8:24: type is \"bool\", allowed with request.id: uuid, text",
            "t.toml:9:44: from in a column of [stream.s] is the integer 1, allowed is a string",
            "t.toml:12:12: column \"e\" is declared twice: names of columns ignore case",
        ],
    );
    let named = |name: &str| format!("[stream.{name}]\ncolumns = [{{ name = \"n\", type = \"int\" }}]\n");
    let long = "x".repeat(64);
    let allowed = "allowed is a letter or _, then letters, digits and _, at most 63 bytes";
    check(&named("\"a-b\""), &[&format!("t.toml:1:9: stream is named \"a-b\", {allowed}")]);
    check(&named("9a"), &[&format!("t.toml:1:9: stream is named \"9a\", {allowed}")]);
    check(&named(&long), &[&format!("t.toml:1:9: stream is named \"{long}\", {allowed}")]);
    check(
        &named("SQLITE_x"),
        &["t.toml:1:9: stream is named \"SQLITE_x\": names that begin with sqlite_ are reserved, choose \
             another name"],
    );
    check(
        &named("tollgate_x"),
        &["t.toml:1:9: stream is named \"tollgate_x\": names that begin with tollgate_ are reserved, \
             choose another name"],
    );
    check(
        &format!("{}{}", named("a"), named("A")),
        &["t.toml:3:9: stream \"A\" has the same table as \"a\": names of tables ignore case"],
    );
}

fn check_column(column: &str, expected: &str) {
    let text = format!("[stream.s]\ncolumns = [\n  {{ name = \"a\", {column} }},\n]\n");
    let expected: Vec<_> = expected.lines().map(|line| format!("t.toml:3:{line}")).collect();
    check(&text, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn rules_of_columns_that_cannot_be_are_told() {
    check_column("type = \"int\", default = \"x\"", "41: default: found \"x\", the column takes int");
    check_column("type = \"int\", default = 1.5", "41: default: found 1.5, the column takes int");
    check_column(
        "type = \"int\", default = 99999999999999999999",
        "41: default: found 99999999999999999999, the column takes int",
    );
    check_column(
        "type = \"json\", default = [1]",
        "42: default in a column of [stream.s] is a list, allowed is a string, a number, a time, true or \
         false (JSON is written as a string)",
    );
    check_column(
        "type = \"int\", default = 1, required = true",
        "55: required = true has no effect with default: remove one of them",
    );
    check_column(
        "type = \"int\", max = \"1KiB\"",
        "3: max is allowed for text, bytes and json, the type is \"int\": remove max",
    );
    check_column(
        "type = \"text\", over = \"reject\"",
        "3: over has no effect without max: set max, or remove over",
    );
    check_column(
        "type = \"json\", max = \"1KiB\", over = \"truncate\"",
        "3: over = \"truncate\" is not allowed for type json, because cut JSON is invalid: allowed is \
         \"reject\"",
    );
    check_column(
        "type = \"text\", redact = \"dorp\"",
        "41: redact is \"dorp\", did you mean \"drop\"?; or { hash = \"${NAME}\" }",
    );
    check_column(
        "type = \"int\", redact = { hash = \"${SECRET}\" }",
        "3: a hash is allowed for type text, the type is \"int\"",
    );
    check_column(
        "type = \"text\", redact = { hash = \"${SHORT}\" }",
        "50: SHORT, the key of a hash, has 10 bytes, allowed are at least 16",
    );
    check_column(
        "type = \"text\", redact = { hash = \"a secret in the file\" }",
        "50: hash in redact is not a variable, allowed is \"${NAME}\" and nothing else: secrets do not \
         belong in the file",
    );
    check_column(
        "type = \"text\", redact = \"truncate\"",
        "3: redact = \"truncate\" is allowed for type inet, or text from request.remote_addr, the type is \
         \"text\"",
    );
    check_column(
        "type = \"text\", required = true, redact = \"drop\"",
        "3: redact = \"drop\" keeps no value: remove default, required and max",
    );
    check_column(
        "type = \"text\", from = \"log.node\", required = true",
        "3: default, required, max and redact are not allowed for columns that the log fills: remove them",
    );
    check_column("type = \"uuid\", from = \"log.node\"", "24: type is \"uuid\", allowed with log.node: text");
    check_column(
        "type = \"int\", from = \"log.sequence\", default = 1",
        "3: default, required, max and redact are not allowed for columns that the log fills: remove them",
    );
    check_column(
        "type = \"bytes\", from = \"request.cookie.x\"",
        "24: type is \"bytes\", allowed with request.cookie.x: text, int, float, bool, timestamp, uuid, inet, \
         decimal, date, time",
    );
}

#[test]
fn types_have_names_sizes_and_lists() {
    for name in
        ["decimal", "decimal(12,2)", "decimal(38)", "date", "time", "int[]", "decimal(12,2)[]", "inet[]"]
    {
        check_column(&format!("type = \"{name}\""), "");
    }
    check_column("type = \"decimal(12,2)\", from = \"request.query.price\", default = 1.25", "");
    check_column("type = \"timestamp[]\", unit = \"ms\", zone = \"UTC\"", "");
    check_column("type = \"int[]\", default = \"[1,null]\"", "");
    let unknown = |name: &str, hint: &str| {
        check_column(&format!("type = \"{name}\""), &format!("24: unknown type \"{name}\"{hint}"));
    };
    unknown("datee", ", did you mean \"date\"?");
    unknown("decimals[]", ", did you mean \"decimal[]\"?");
    let sizes =
        ", allowed is decimal(PRECISION,SCALE): a precision of 1 to 38, and a scale up to the precision";
    unknown("decimal(39,2)", sizes);
    unknown("decimal(2,3)[]", sizes);
    let lists = ": an array holds no bytes, json and arrays. A column of type \"json\" holds any list";
    unknown("bytes[]", lists);
    unknown("int[][]", lists);
    check_column(
        "type = \"int[]\", from = \"request.query.n\"",
        "24: type is \"int[]\", allowed with request.query.n: text, int, float, bool, timestamp, uuid, inet, \
         decimal, date, time",
    );
    check_column(
        "type = \"decimal(5,2)\", default = 1.255",
        "50: default: found 1.255, the column takes decimal(5,2)",
    );
    check_column(
        "type = \"text[]\", max = \"1KiB\"",
        "3: max is allowed for text, bytes and json, the type is \"text[]\": remove max",
    );
}

#[test]
fn rules_for_times_that_cannot_be_are_told() {
    let column = |keys: &str| format!("type = \"timestamp\", {keys}");
    check_column(&column("unit = \"ms\", zone = \"+02:00\", default = 1767225600123"), "");
    check_column(
        &column("unit = \"fortnight\""),
        "44: unit in a column of [stream.s] is \"fortnight\", allowed: s, ms, us, ns",
    );
    check_column(
        &column("zone = \"Europe/Nowhere\""),
        "44: zone is \"Europe/Nowhere\", allowed are UTC, an offset such as +02:00, or a name such as \
         Europe/Berlin, which needs tzdata",
    );
    let refused = "is allowed for type timestamp, with a source that clients or scripts fill: remove";
    check_column("type = \"int\", unit = \"s\"", &format!("38: unit {refused} unit"));
    check_column(&column("from = \"request.time\", zone = \"UTC\""), &format!("67: zone {refused} zone"));
    check_column(
        &column("default = 1767225600"),
        "47: default: found 1767225600, the column takes timestamp",
    );
}

#[test]
fn coerce_is_for_types_that_another_value_can_be_exactly() {
    check_column("type = \"int\", coerce = true", "");
    check_column("type = \"decimal(5,2)[]\", coerce = true", "");
    check_column("type = \"text\", coerce = false", "");
    check_column(
        "type = \"text\", coerce = true",
        "41: coerce is allowed for int, float, bool, decimal and arrays of them: remove coerce",
    );
}

#[test]
fn a_value_that_one_column_redacts_may_be_shown_by_no_other() {
    let text = |columns: &str| format!("[stream.s]\ncolumns = [\n{columns}]\n");
    let email = "  { name = \"email\", type = \"text\", redact = \"drop\" },\n";
    let whole = "  { name = \"all\", type = \"json\", from = \"record\" },\n";
    check(
        &text(&format!("{email}{whole}")),
        &["t.toml:4:3: column \"all\" keeps record, which reveals the value that column \"email\" redacts: \
             redact it too, or remove it"],
    );
    let again = "  { name = \"hash\", type = \"text\", from = \"record.email\", redact = { hash = \"${SECRET}\" } },\n";
    check(&text(&format!("{email}{again}")), &[]);
}

#[test]
fn keys_that_cannot_be_are_told() {
    let text =
        |rest: &str| format!("{}{rest}\n", "[stream.s]\ncolumns = [{ name = \"n\", type = \"text\" }]\n");
    check(&text("key = \"request.header.idempotency-key\""), &[]);
    check(
        &text("key = \"request.path\""),
        &[
            "t.toml:3:7: key of [stream.s] is \"request.path\", allowed: request.header.NAME, request.query.NAME, \
           request.cookie.NAME, request.param.NAME, request.id, record.NAME, envelope.NAME, xml:PATH, \
           xml:/PATH",
        ],
    );
    check(
        &text("key_window = \"1h\""),
        &["t.toml:3:14: key_window in [stream.s] has no effect without key: set key, or remove key_window"],
    );
    check(
        &text("key = \"record.id\"\nkey_window = \"1ms\""),
        &[
            "t.toml:4:14: key_window in [stream.s] is \"1ms\", allowed is a duration from 1s to 8760h like \"10s\", units ms, s, m, h",
        ],
    );
    check(
        "[stream.s]\nkey = \"record.id\"\ncolumns = [{ name = \"id\", type = \"text\", redact = \"drop\" }]\n",
        &["t.toml:2:7: key is \"record.id\", which column \"id\" redacts: the digest of a key would reveal \
             values that can be guessed"],
    );
}

/// Makes a stream with this `ack` and more keys.
fn acked(ack: &str, rest: &str) -> String {
    format!("[stream.s]\nack = {ack}\ncolumns = [{{ name = \"n\", type = \"int\" }}]\n{rest}\n")
}

const TWO_SINKS: &str = "[sink.one]\nsqlite = \"1.db\"\n[sink.two]\nsqlite = \"2.db\"\n";

#[test]
fn replies_that_cannot_wait_for_a_database_are_told_with_what_is_allowed() {
    check(&acked("\"loaded\"", ""), &[]);
    check(&acked("{ loaded = \"two\" }", TWO_SINKS), &[]);
    check(
        &acked("\"loaded\"", TWO_SINKS),
        &["t.toml:2:7: ack of [stream.s] is \"loaded\", but 2 sinks take the stream: write { loaded = \
             \"SINK\" } with one of one, two"],
    );
    check(
        &acked("{ loaded = \"too\" }", TWO_SINKS),
        &["t.toml:2:18: ack of [stream.s] names the unknown sink \"too\", did you mean \"two\"?"],
    );
    let others = "[stream.other]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
    let of_others = format!("{others}[sink.one]\nsqlite = \"1.db\"\nstreams = [\"other\"]\n");
    check(
        &acked("\"loaded\"", &of_others),
        &["t.toml:2:7: ack of [stream.s] is \"loaded\", but no sink takes the stream: add it to streams of \
             a sink"],
    );
    check(
        &acked("{ loaded = \"one\" }", &of_others),
        &["t.toml:2:18: ack of [stream.s] names sink \"one\", which does not take the stream: add it to \
             streams of the sink"],
    );
    check(&acked("\"loaded\"", &format!("{of_others}[sink.two]\nsqlite = \"2.db\"\n")), &[]);
    check(
        &acked("\"loaded\"", "[load]\nin_server = false\n"),
        &["t.toml:2:7: ack of [stream.s] is \"loaded\", which needs the loader of the server: [load] \
             in_server is false, set it to true"],
    );
}

#[test]
fn an_ack_that_nobody_knows_and_a_timeout_without_a_wait_are_told() {
    check(&acked("\"load\"", ""), &["t.toml:2:7: ack in [stream.s] is \"load\", did you mean \"loaded\"?"]);
    check(
        &acked("\"fast\"", ""),
        &["t.toml:2:7: ack in [stream.s] is \"fast\", allowed: received, written, synced, loaded, queued"],
    );
    check(
        &acked("5", ""),
        &["t.toml:2:7: ack in [stream.s] is the integer 5, allowed is a string, { loaded = \"SINK\" } or { \
             queued = \"SINK\" }"],
    );
    check(
        &acked("{ loded = \"main\" }", ""),
        &[
            "t.toml:2:7: missing key \"loaded\" in ack",
            "t.toml:2:9: unknown key \"loded\" in ack, did you mean \"loaded\"?",
        ],
    );
    check(
        &acked("\"written\"", "ack_timeout = \"1s\""),
        &["t.toml:4:15: ack_timeout in [stream.s] needs ack = \"loaded\" or \"queued\", found ack = \
             \"written\""],
    );
    check(
        &acked("\"loaded\"", "when_away = \"synced\""),
        &["t.toml:4:13: when_away in [stream.s] needs ack = \"queued\", found ack = \"loaded\""],
    );
    check(
        &acked("\"loaded\"", "ack_timeout = \"1ms\""),
        &[
            "t.toml:4:15: ack_timeout in [stream.s] is \"1ms\", allowed is a duration from 100ms to 1h like \"10s\", units ms, s, m, h",
        ],
    );
}

#[test]
fn an_ack_of_a_queue_needs_a_kafka_sink_that_takes_the_stream() {
    let bus = "[sink.bus]\nkafka = \"127.0.0.1:1\"\n";
    check(&acked("\"queued\"", bus), &[]);
    check(&acked("{ queued = \"bus\" }", &format!("{bus}[sink.main]\nsqlite = \"1.db\"\n")), &[]);
    check(
        &acked("\"queued\"", "[sink.main]\nsqlite = \"1.db\"\n"),
        &["t.toml:2:7: ack of [stream.s] is \"queued\", but sink \"main\" is a database: write \
             ack = \"loaded\", or add a Kafka sink"],
    );
    check(
        &acked("\"loaded\"", bus),
        &["t.toml:2:7: ack of [stream.s] is \"loaded\", but sink \"bus\" is a Kafka cluster: write \
             ack = \"queued\", or add a sink with a database"],
    );
    let others = format!(
        "{bus}streams = [\"o\"]\n[stream.o]\ncolumns = [{{ name = \"n\", type = \"int\" }}]\n\
         [sink.main]\nsqlite = \"1.db\"\n"
    );
    check(
        &acked("\"queued\"", &others),
        &["t.toml:2:7: ack of [stream.s] is \"queued\", but no Kafka sink takes the stream: add it to \
             streams of a sink"],
    );
    check(
        &acked("{ queued = \"main\" }", "[sink.main]\nsqlite = \"1.db\"\n"),
        &["t.toml:2:18: ack of [stream.s] names sink \"main\", which is a database: write \
             { loaded = \"main\" }"],
    );
    check(
        &acked("{ loaded = \"bus\" }", bus),
        &["t.toml:2:18: ack of [stream.s] names sink \"bus\", which is a Kafka cluster: \
             write { queued = \"bus\" }"],
    );
    check(&acked("\"queued\"", &format!("when_away = \"synced\"\n{bus}")), &[]);
}

#[test]
fn a_stream_with_a_key_needs_a_kafka_sink_that_keeps_duplicates() {
    let keyed = |sink: &str| {
        format!(
            "[stream.s]\nkey = \"request.id\"\ncolumns = [{{ name = \"n\", type = \"int\" }}]\n\
             [sink.bus]\nkafka = \"127.0.0.1:1\"\n{sink}"
        )
    };
    check(&keyed("duplicates = \"keep\"\n"), &[]);
    check(
        &keyed(""),
        &["t.toml:4:1: [sink.bus] takes [stream.s], which has a key: a topic cannot find the rows of a \
             retry. Set duplicates = \"keep\" in the sink, or take the stream from its streams"],
    );
}

#[test]
fn the_sink_that_replies_wait_for_is_printed_and_reads_back() {
    let dir = app();
    let file = dir.path().join("t.toml");
    for (text, expected) in [
        (acked("\"loaded\"", ""), "ack = \"loaded\"\nack_timeout = \"10s\"\n"),
        (
            acked("{ loaded = \"two\" }", &format!("ack_timeout = \"1500ms\"\n{TWO_SINKS}")),
            "ack = { loaded = \"two\" }\nack_timeout = \"1500ms\"\n",
        ),
    ] {
        let first = resolve(&file, &text, &env).unwrap();
        let second = resolve(&file, &first.to_string(), &env).unwrap();
        assert!(first.to_string().contains(expected), "{first}");
        assert_eq!(second.to_string(), first.to_string());
        assert_eq!(second.server.streams[0].ack, first.server.streams[0].ack);
    }
    let two = resolve(&file, &acked("{ loaded = \"two\" }", TWO_SINKS), &env).unwrap();
    let ack = two.server.streams[0].ack;
    assert!(matches!(ack, tollgate_server::Ack::Loaded { sink: tollgate_log::SinkPlace(1), .. }), "{ack:?}");
}

#[test]
fn sources_that_no_request_carries_are_told() {
    let from = |from: &str| format!("type = \"text\", from = \"request.{from}\"");
    check_column(
        &from("header.user_agent"),
        "39: from is \"request.header.user_agent\": field names with _ are refused, did you mean \
         \"request.header.user-agent\"?",
    );
    check_column(
        &from("header.a b"),
        "39: from is \"request.header.a b\": \"a b\" is not a field name: allowed are letters, digits and \
         !#$%&'*+-.^`|~",
    );
    check_column(
        &from("cookie.a;b"),
        "39: from is \"request.cookie.a;b\": \"a;b\" is not a cookie name: allowed is one without ; and = and blanks \
         at its ends",
    );
    let text = |key: &str, path: &str| {
        format!(
            "[stream.s]\nkey = \"{key}\"\ncolumns = [{{ name = \"n\", type = \"int\" }}]\n[[route]]\npath = \"{path}\"\nreply = {{ status = 200 }}\n"
        )
    };
    check(
        &text("request.header.x_key", "/a"),
        &["t.toml:2:7: key is \"request.header.x_key\": field names with _ are refused, did you mean \
           \"request.header.x-key\"?"],
    );
    check(
        &text("request.param.usr", "/a/{user}"),
        &["t.toml:1:9: [stream.s] keeps request.param.usr, but no path has {usr}, did you mean \"user\"?"],
    );
    check(
        &text("request.param.user", "/a"),
        &["t.toml:1:9: [stream.s] keeps request.param.user, but no path has {user}: none is declared"],
    );
    check(&text("request.param.user", "/a/{user}"), &[]);
}
