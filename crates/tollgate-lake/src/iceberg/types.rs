//! The columns of a table: types of Iceberg, and the ids of fields.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tollgate_log::ColumnType;

/// The id of a column, and of its elements if it is a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldId {
    /// The id of the column.
    pub id: i32,
    /// The id of the elements.
    pub element: Option<i32>,
}

/// The ids of the columns of a table, by their names.
pub type FieldIds = BTreeMap<String, FieldId>;

/// A column that a table has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub kind: ColumnType,
}

impl TableColumn {
    /// Returns the field of a schema, with ids after `last`.
    pub(super) fn to_field(&self, last: &mut i64) -> Json {
        let mut next = || {
            *last += 1;
            *last
        };
        let id = next();
        let kind = match self.kind {
            ColumnType::Array(_) => json!({
                "type": "list",
                "element-id": next(),
                "element": type_of(self.kind.scalar()),
                "element-required": false,
            }),
            scalar => Json::String(type_of(scalar)),
        };
        json!({"id": id, "name": self.name, "required": false, "type": kind})
    }

    /// Returns the ids of a field, if it has the type of this column.
    pub(super) fn ids_in(&self, field: &Json) -> Option<FieldId> {
        let id = |value: &Json| value.as_i64().and_then(|id| i32::try_from(id).ok());
        let kind = &field["type"];
        let (scalar, element) = match kind["type"].as_str() {
            Some("list") => (&kind["element"], Some(id(&kind["element-id"])?)),
            _ => (kind, None),
        };
        let is_list = matches!(self.kind, ColumnType::Array(_));
        let is_same = scalar.as_str().is_some_and(|found| same(found, &type_of(self.kind.scalar())));
        (is_same && is_list == element.is_some()).then_some(FieldId { id: id(&field["id"])?, element })
    }

    /// Returns the type, as a schema has it.
    pub(super) fn type_text(&self) -> String {
        let scalar = type_of(self.kind.scalar());
        if matches!(self.kind, ColumnType::Array(_)) { format!("list<{scalar}>") } else { scalar }
    }
}

/// Returns the type of a field, for people.
pub(super) fn type_text(kind: &Json) -> String {
    match kind["type"].as_str() {
        Some("list") => format!("list<{}>", type_text(&kind["element"])),
        Some(other) => other.to_owned(),
        None => kind.as_str().unwrap_or_default().to_owned(),
    }
}

fn same(one: &str, other: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|letter| *letter != ' ').collect::<String>();
    letters(one) == letters(other)
}

fn type_of(kind: ColumnType) -> String {
    let name = match kind {
        ColumnType::Bool => "boolean",
        ColumnType::Int => "long",
        ColumnType::Float => "double",
        ColumnType::Bytes => "binary",
        ColumnType::Timestamp => "timestamptz",
        ColumnType::Uuid => "uuid",
        ColumnType::Date => "date",
        ColumnType::Time => "time",
        ColumnType::Decimal(Some(size)) => return format!("decimal({}, {})", size.precision(), size.scale()),
        ColumnType::Text
        | ColumnType::Json
        | ColumnType::Inet
        | ColumnType::Decimal(None)
        | ColumnType::Array(_) => "string",
    };
    name.to_owned()
}
