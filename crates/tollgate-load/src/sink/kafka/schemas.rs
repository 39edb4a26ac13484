//! The schemas of rows in topics: entries of the topic of positions, as JSON. A row has the hash of its
//! schema in a header, so a loader of the topic knows the type of each column.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tollgate_log::{Column, ColumnOrigin, ColumnType, Schema};
use tollgate_queue::QueueRecord;

use super::entry::{entry, fnv};

/// Name of the column with the key. It is in no table.
const KEY_COLUMN: &str = "(key)";

/// A schema, and the topic with its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicSchema {
    /// Name of the topic.
    pub(crate) topic: String,
    /// Number among the schemas of the sink. A later schema has a higher one.
    pub(super) number: u64,
    /// The columns. All of them are stored in the value or in the key.
    pub(crate) schema: Arc<Schema>,
}

/// The schemas of sinks, by hash, then by topic. Several topics may have rows of one schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopicSchemas(BTreeMap<String, BTreeMap<String, TopicSchema>>);

impl TopicSchemas {
    /// Returns the columns of rows with this hash.
    pub(crate) fn get(&self, hash: &str) -> Option<&Arc<Schema>> {
        self.0.get(hash)?.values().next().map(|known| &known.schema)
    }

    /// Returns whether a topic may have rows with this hash.
    pub(super) fn has(&self, hash: &str, topic: &str) -> bool {
        self.0.get(hash).is_some_and(|topics| topics.contains_key(topic))
    }

    /// Returns all schemas.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TopicSchema> {
        self.0.values().flat_map(BTreeMap::values)
    }

    /// Adds the schemas of another sink.
    pub(crate) fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|(hash, topics)| self.0.entry(hash).or_default().extend(topics));
    }

    /// Returns the newest schema of a stream.
    pub(super) fn newest(&self, stream: &str) -> Option<&Arc<Schema>> {
        let of_stream = self.iter().filter(|known| known.schema.stream() == stream);
        of_stream.max_by_key(|known| known.number).map(|known| &known.schema)
    }

    /// Returns the number of the next schema.
    pub(super) fn next_number(&self) -> u64 {
        self.iter().map(|known| known.number + 1).max().unwrap_or_default()
    }

    /// Adds a schema. Returns its entry.
    pub(super) fn add(
        &mut self,
        number: u64,
        (sink, topic): (&str, &str),
        hash: &str,
        schema: &Schema,
    ) -> QueueRecord {
        let columns: Vec<_> = schema
            .table_columns()
            .map(|column| Json::from(vec![column.name.clone(), column.kind.name().into_owned()]))
            .collect();
        let window_ms = window_ms(schema);
        let value = json!({
            "number": number,
            "stream": schema.stream(),
            "topic": topic,
            "columns": columns,
            "key_window_ms": window_ms,
        });
        let known = TopicSchema { topic: topic.to_owned(), number, schema: Arc::new(schema.clone()) };
        self.0.entry(hash.to_owned()).or_default().insert(topic.to_owned(), known);
        entry(sink, None, &format!("schema/{sink}/{hash}/{topic}"), Some(&value))
    }

    /// Reads the value of an entry. `None`: no version of this program writes such a value.
    pub(super) fn take(&mut self, hash: &str, value: &Json) -> Option<()> {
        let mut columns = Vec::new();
        for column in value["columns"].as_array()? {
            let (name, kind) = (column[0].as_str()?.to_owned(), ColumnType::from_name(column[1].as_str()?)?);
            columns.push(Column { name, kind, origin: ColumnOrigin::Stored });
        }
        if let Some(window_ms) = value["key_window_ms"].as_u64() {
            let origin = ColumnOrigin::Key { window_ms };
            columns.push(Column { name: KEY_COLUMN.to_owned(), kind: ColumnType::Bytes, origin });
        }
        let schema = Arc::new(Schema::new(value["stream"].as_str()?, columns).ok()?);
        let (topic, number) = (value["topic"].as_str()?.to_owned(), value["number"].as_u64()?);
        let known = TopicSchema { topic: topic.clone(), number, schema };
        self.0.entry(hash.to_owned()).or_default().insert(topic, known);
        Some(())
    }
}

/// Returns a schema as a loader of the topic reads it: all its columns are stored, and the key is the last
/// one.
pub(super) fn stored(schema: &Schema) -> Option<Schema> {
    let stored = |column: &Column| Column { origin: ColumnOrigin::Stored, ..column.clone() };
    let mut columns: Vec<_> = schema.table_columns().map(stored).collect();
    columns.extend(schema.columns().iter().find(|column| column.is_key()).cloned());
    Schema::new(schema.stream(), columns).ok()
}

/// Returns a hash that changes with the stream, the name or type of a column, or the window of the key.
pub(super) fn hash(schema: &Schema) -> String {
    let columns = schema.table_columns().map(|column| format!("{}:{}\n", column.name, column.kind.name()));
    let text = format!("{}\n{}{:?}", schema.stream(), columns.collect::<String>(), window_ms(schema));
    format!("{:016x}", fnv(text.into_bytes()))
}

fn window_ms(schema: &Schema) -> Option<u64> {
    schema.columns().iter().find_map(|column| match column.origin {
        ColumnOrigin::Key { window_ms } => Some(window_ms),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, kind: &str) -> Column {
        let kind = ColumnType::from_name(kind).unwrap();
        Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored }
    }

    #[test]
    fn a_schema_is_read_as_it_was_written_and_its_hash_names_it() {
        let key = Column {
            name: KEY_COLUMN.to_owned(),
            kind: ColumnType::Bytes,
            origin: ColumnOrigin::Key { window_ms: 60_000 },
        };
        let plain = vec![column("n", "int"), column("price", "decimal(12,2)[]")];
        let keyed = [plain.clone(), vec![key]].concat();
        let mut schemas = TopicSchemas::default();
        let mut hashes = Vec::new();
        for columns in [plain, keyed] {
            let schema = Schema::new("visits", columns).unwrap();
            let hash = hash(&schema);
            let record = schemas.add(schemas.next_number(), ("bus", "tg.visits"), &hash, &schema);
            let value: Json = serde_json::from_slice(&record.value.unwrap()).unwrap();
            let mut read = TopicSchemas::default();
            read.take(&hash, &value).unwrap();
            assert_eq!(read.0[&hash], schemas.0[&hash]);
            assert_eq!(**read.get(&hash).unwrap(), schema);
            assert!(read.has(&hash, "tg.visits") && !read.has(&hash, "tg.others"));
            hashes.push(hash);
        }
        assert_ne!(hashes[0], hashes[1]);
        assert_eq!(schemas.newest("visits"), schemas.get(&hashes[1]));
        assert_eq!(schemas.newest("others"), None);
        // The same rows in another topic are another entry.
        let schema = schemas.get(&hashes[0]).unwrap().clone();
        let record = schemas.add(9, ("bus", "new.visits"), &hashes[0], &schema);
        assert!(String::from_utf8_lossy(&record.key.unwrap()).ends_with("/new.visits"));
        assert!(schemas.has(&hashes[0], "tg.visits") && schemas.has(&hashes[0], "new.visits"));
        assert_eq!(schemas.get("0"), None);
    }
}
