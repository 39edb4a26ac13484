//! The three formats of one log, line by line.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tollgate_log::{
    ArrayBuffer, Column, ColumnOrigin, ColumnType, DiskStorage, ElementType, Log, LogId, LogOptions, Schema,
    SchemaId, Value,
};
use tollgate_server::StreamSpec;
use tollgate_value::{Date, Decimal, TimeOfDay};

use super::*;
use crate::log::tests::{append, print_log};

const CONFIG: &str = r#"
[stream.visits]
columns = [
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "verb", type = "text", from = "request.method" },
  { name = "where", type = "text", from = "request.path" },
  { name = "query", type = "text", from = "request.query" },
  { name = "who", type = "inet", from = "request.remote_addr" },
  { name = "status", type = "int", from = "reply.status" },
  { name = "size", type = "int", from = "reply.bytes" },
  { name = "from", type = "text", from = "request.header.Referer" },
  { name = "agent", type = "text", from = "request.header.user-agent" },
  { name = "note", type = "text", from = "record.note" },
]
[stream.small]
columns = [
  { name = "status", type = "int", from = "record.status" },
  { name = "path", type = "text", from = "request.path" },
]
[[route]]
path = "/"
reply = {}
"#;

fn config(dir: &Path) -> Config {
    let file = dir.join("tollgate.toml");
    std::fs::write(&file, CONFIG).unwrap();
    Config::load(&file).unwrap()
}

/// Writes rows of both streams and a reject. Returns their printed form, with the clock replaced.
fn printed(format: RecordFormat) -> String {
    printed_of(format, None)
}

/// Returns the printed form of one stream, or of all.
fn printed_of(format: RecordFormat, stream: Option<&str>) -> String {
    let dir = TempDir::new().unwrap();
    let config = config(dir.path());
    let schemas = config.server.streams.iter().map(|stream| StreamSpec::schema(stream).unwrap()).collect();
    let (log, _) = Log::open(Arc::new(DiskStorage), LogOptions::new(dir.path()), schemas, |_| {}).unwrap();
    let id = log.id();
    let mut appender = log.appender(|| {});
    let visit = [
        Value::Timestamp(1_700_000_000_123_456),
        Value::Text("GET"),
        Value::Text("/a b/\u{fc}\"\n"),
        Value::Text("q=\"1\""),
        Value::Inet("192.0.2.7".parse::<IpAddr>().unwrap()),
        Value::Int(200),
        Value::Int(0),
        Value::Text("https://example.com/?\"x\""),
        Value::Text("agent \\ \u{1b}[2J"),
        Value::Text("plain"),
    ];
    append(&mut appender, |transaction| {
        transaction.row(SchemaId(0), |row| visit.iter().try_for_each(|value| row.push(*value))).unwrap();
        transaction.row(SchemaId(0), |_| Ok(())).unwrap();
        transaction
            .row(SchemaId(1), |row| row.push(Value::Int(7)).and_then(|()| row.push(Value::Text("/p"))))
            .unwrap();
        transaction.reject(SchemaId(1), "column \"status\" takes int", b"{\"status\":\"x\"}\xff");
    });
    drop(appender);
    log.close().unwrap();
    let mut printer = Printer::new(format, stream, Some(&config)).unwrap();
    let mut out = Vec::new();
    printer.begin(&mut out).unwrap();
    assert!(print_log(dir.path(), id, &mut printer, &mut out));
    String::from_utf8(out).unwrap().replace(&id.to_string(), "LOG")
}

#[test]
fn combined_is_the_line_of_an_access_log_and_what_a_stream_lacks_is_a_dash() {
    let expected = concat!(
        r#"192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET /a%20b/%C3%BC%22%0A?q=%221%22 HTTP/1.1" 200 0 "#,
        r#""https://example.com/?\x22x\x22" "agent \x5C \x1B[2J""#,
        "\n",
        r#"- - - [-] "-" - - "-" "-""#,
        "\n",
        // A column with the record as its source is not a field of the reply, even if it has the name of such
        // a field.
        r#"- - - [-] "- /p HTTP/1.1" - - "-" "-""#,
        "\n",
        r#"- - - [-] "-" - - "-" "-""#,
        "\n",
    );
    assert_eq!(printed(RecordFormat::Combined), expected);
}

#[test]
fn a_time_of_the_last_day_of_the_range_is_printed_as_a_time() {
    let print = |us| {
        let mut out = String::new();
        value::push_value(&mut out, Value::Timestamp(us));
        out
    };
    assert_eq!(print(253_402_300_799_000_000), "\"9999-12-31T23:59:59Z\"");
    assert_eq!(print(-62_135_596_800_000_000), "\"0001-01-01T00:00:00Z\"");
    // An older log may have such a time.
    assert_eq!(print(253_402_300_800_000_000), "253402300800000000");
}

#[test]
fn a_decimal_is_text_and_an_array_is_a_list() {
    fn print(value: Value<'_>) -> String {
        let mut out = String::new();
        value::push_value(&mut out, value);
        out
    }
    let decimal = Value::Decimal(Decimal::parse("12345678901234567890.10").unwrap());
    assert_eq!(print(decimal), "\"12345678901234567890.10\"");
    assert_eq!(print(Value::Date(Date::FIRST)), "\"0001-01-01\"");
    assert_eq!(print(Value::Time(TimeOfDay::LAST)), "\"23:59:59.999999\"");
    let mut list = ArrayBuffer::new(ElementType::Text);
    [Value::Text("a\""), Value::Null].into_iter().for_each(|value| list.push(value).unwrap());
    assert_eq!(print(list.finish().value()), "[\"a\\\"\",null]");
    let mut decimals = ArrayBuffer::new(ElementType::Decimal(None));
    decimals.push(decimal).unwrap();
    assert_eq!(print(decimals.finish().value()), "[\"12345678901234567890.10\"]");
}

#[test]
fn text_is_one_line_per_record_in_columns_that_steers_no_terminal() {
    let text = printed(RecordFormat::Text);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (5, "==> log LOG <=="));
    let stamp = lines[1].split(' ').next().unwrap();
    assert_eq!((stamp.len(), stamp.matches([':', '-', '.', 'T', 'Z']).count()), (27, 7), "{stamp}");
    let behind: Vec<_> = lines[1..].iter().map(|line| &line[27..]).collect();
    assert_eq!(
        behind[0],
        concat!(
            r#"         1  visits    at=2023-11-14T22:13:20.123456Z  verb=GET  where="/a b/ü\"\n"  query="q=\"1\""  "#,
            r#"who=192.0.2.7  status=200  size=0  from="https://example.com/?\"x\""  "#,
            r#"agent="agent \\ \u001b[2J"  note=plain"#,
        )
    );
    assert!(behind[1].starts_with("         2  visits    at=-  verb=-  "), "{}", behind[1]);
    assert_eq!(behind[2], "         3  small     status=7  path=/p");
    assert_eq!(
        behind[3],
        "         4  small     REJECT \"column \\\"status\\\" takes int\"  item=\"{\\\"status\\\":\\\"x\\\"}\u{fffd}\""
    );
}

#[test]
fn csv_quotes_what_rfc_4180_requires_and_null_differs_from_an_empty_text() {
    let expected = concat!(
        "log,sequence,at,verb,where,query,who,status,size,from,agent,note\n",
        "LOG,1,2023-11-14T22:13:20.123456Z,GET,\"/a b/ü\"\"\n\",\"q=\"\"1\"\"\",192.0.2.7,200,0,",
        "\"https://example.com/?\"\"x\"\"\",agent \\ \u{1b}[2J,plain\n",
        "LOG,2,,,,,,,,,,\n",
    );
    assert_eq!(printed_of(RecordFormat::Csv, Some("visits")), expected);
    // The reject of the stream has no columns.
    assert_eq!(printed_of(RecordFormat::Csv, Some("small")), "log,sequence,status,path\nLOG,3,7,/p\n");
}

#[test]
fn csv_prints_each_type_and_rows_of_another_shape_by_name() {
    let columns = |names: &[&str]| {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            kind: ColumnType::Text,
            origin: ColumnOrigin::Stored,
        };
        Arc::new(Schema::new("s", names.iter().map(column).collect()).unwrap())
    };
    let mut csv = csv::Csv::new(None);
    let mut print = |schema: &Arc<Schema>, values: &[Value<'_>]| {
        let body = tollgate_log::RecordBody::Row(Vec::new());
        let record = tollgate_log::Record { sequence: Sequence(1), schema_id: SchemaId(0), schema, body };
        let mut line = String::new();
        csv.know(schema);
        csv.push_header(&mut line);
        let missing = csv.push_row(&mut line, LogId::from_bytes([0; 16]), &record, values);
        (line.replace(&LogId::from_bytes([0; 16]).to_string(), "LOG"), missing)
    };
    let first = columns(&["a", "log", "b,c"]);
    let values = [Value::Text(""), Value::Null, Value::Bytes(b"foob")];
    assert_eq!(
        print(&first, &values),
        ("log,sequence,a,column.log,\"b,c\"\nLOG,1,\"\",,Zm9vYg==".to_owned(), None)
    );
    let values = [Value::Bool(true), Value::Float(f64::NAN), Value::Json("{\n\"a\": [1, 2]}")];
    assert_eq!(print(&first, &values), ("LOG,1,true,,\"{ \"\"a\"\": [1, 2]}\"".to_owned(), None));
    let values = [Value::Uuid([0xab; 16]), Value::Timestamp(1_500_000), Value::Json("\"x\"")];
    let uuid = "abababab-abab-abab-abab-abababababab";
    assert_eq!(print(&first, &values), (format!("LOG,1,{uuid},1970-01-01T00:00:01.5Z,\"\"\"x\"\"\""), None));
    let second = columns(&["new", "b,c", "A", "newer"]);
    let values = [Value::Int(1), Value::Int(2), Value::Int(3), Value::Int(4)];
    assert_eq!(print(&second, &values), ("LOG,1,3,,2".to_owned(), Some("new".to_owned())));
    assert_eq!(print(&second, &values).1, Some("newer".to_owned()));
    assert_eq!(print(&second, &values).1, None, "each is reported once");
}

#[test]
fn csv_without_a_stream_says_what_it_needs() {
    let error = Printer::new(RecordFormat::Csv, None, None).err().unwrap().to_string();
    assert!(error.contains("name it by --stream"), "{error}");
}

#[test]
fn an_envelope_has_the_identity_beside_the_row_or_the_reject() {
    let text = printed_of(RecordFormat::Envelope, Some("small"));
    let expected = concat!(
        r#"{"_log":"LOG","_seq":3,"_stream":"small","row":{"status":7,"path":"/p"}}"#,
        "\n",
        r#"{"_log":"LOG","_seq":4,"_stream":"small","reject":{"reason":"column \"status\" takes int","#,
        r#""item_base64":"eyJzdGF0dXMiOiJ4In3/"}}"#,
        "\n",
    );
    assert_eq!(text, expected);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn combined_without_a_configuration_says_what_it_needs() {
    let error = Printer::new(RecordFormat::Combined, None, None).err().unwrap().to_string();
    assert!(error.contains("needs a configuration"), "{error}");
}

#[test]
fn each_log_has_its_line_once_in_text() {
    let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
    let schema = Arc::new(Schema::new("small", vec![column]).unwrap());
    let mut text = text::Text::default();
    let mut out = String::new();
    for (log, sequence) in [(1, 1), (1, 2), (2, 1)] {
        let body = tollgate_log::RecordBody::Row(vec![Value::Null]);
        let record = tollgate_log::Record {
            sequence: Sequence(sequence),
            schema_id: SchemaId(0),
            schema: &schema,
            body,
        };
        text.push_record(&mut out, LogId::from_bytes([log; 16]), 0, &record);
        out.push('\n');
    }
    assert_eq!(out.matches("==> log").count(), 2, "{out}");
    assert_eq!(out.lines().count(), 5, "{out}");
}
