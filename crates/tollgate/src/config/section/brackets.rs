//! Tables with too few or too many brackets. The fault has the text to write. The table is then read as it
//! was meant, so that it causes no further faults.

use toml::de::DeValue;

use super::{KeyAndValue, Section, Written, found};

impl<'a> Section<'a> {
    /// Returns the tables of a key that a file writes several times. `name` is `[[route]]`, or the key itself
    /// if its value is a list of inline tables.
    pub(super) fn several(&self, entry: &KeyAndValue<'a>, name: &str, allowed: &str) -> Option<Vec<Self>> {
        if let Some(items) = entry.value.as_array() {
            return Some(
                items.iter().filter_map(|item| self.table_of(&entry.item(item), name.to_owned())).collect(),
            );
        }
        if !name.starts_with("[[") || entry.value.as_table().is_none() {
            self.mismatch(entry, allowed);
            return None;
        }
        self.fault_at(
            &entry.value_span,
            format!("[{}] is one table, allowed is {allowed}: write {name}", entry.key),
        );
        self.table_of(entry, name.to_owned()).map(|table| vec![table])
    }

    /// Returns the table of a key, or the first one if the file writes the key with double brackets.
    pub(super) fn single(&self, entry: &KeyAndValue<'a>, name: &str) -> Option<KeyAndValue<'a>> {
        let first = self.doubled(entry)?.into_iter().next()?;
        self.fault_at(
            &entry.value_span,
            format!("[{name}] is a list of tables, allowed is one table: write {name}"),
        );
        Some(first)
    }

    /// Returns the tables of a key like `stream` with their names, if the file leaves their names out of the
    /// brackets. A key `name` then has the name.
    pub(super) fn unnamed(&mut self, key: &'static str) -> Option<Vec<(Written<String>, Self)>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?.clone();
        let tables = match self.doubled(&entry) {
            Some(tables) => tables,
            None if self.is_plain(&entry) => vec![entry.clone()],
            None => return None,
        };
        self.known.push(key);
        let named: Vec<_> = tables.iter().filter_map(|table| self.name_inside(table)).collect();
        let example = named.first().map_or("NAME", |(name, _)| &name.value);
        self.fault_at(
            &entry.value_span,
            format!("[{key}] has no name in its brackets: write [{key}.{example}]"),
        );
        Some(named)
    }

    /// Returns whether a table has keys with values, and no tables in it.
    fn is_plain(&self, entry: &KeyAndValue<'a>) -> bool {
        let is_value = |value: &DeValue<'_>| !matches!(value, DeValue::Table(_));
        entry.value.as_table().is_some_and(|table| {
            !table.is_empty()
                && table.iter().all(|(key, value)| {
                    let item = KeyAndValue { key: key.get_ref(), ..entry.item(value) };
                    is_value(value.get_ref()) && self.doubled(&item).is_none()
                })
        })
    }

    fn name_inside(&self, entry: &KeyAndValue<'a>) -> Option<(Written<String>, Self)> {
        let mut table = self.table_of(entry, String::new())?;
        let name = table.entries.iter().find(|entry| entry.key == "name")?;
        let name = Written { value: name.value.as_str()?.to_owned(), span: name.value_span.clone() };
        table.entries.retain(|entry| entry.key != "name");
        table.name = format!("[{}.{}]", entry.key, name.value);
        Some((name, table))
    }

    /// Returns the tables of a key that the file writes with double brackets.
    fn doubled(&self, entry: &KeyAndValue<'a>) -> Option<Vec<KeyAndValue<'a>>> {
        let items = entry.value.as_array().filter(|_| self.context.faults.is_at(&entry.value_span, "[["))?;
        let tables: Vec<_> = items.iter().map(|item| entry.item(item)).collect();
        (!tables.is_empty() && tables.iter().all(|item| item.value.as_table().is_some())).then_some(tables)
    }

    /// Returns the items of a list. A text that stands alone is a fault with the list to write, and is
    /// returned as the only item. `repaired` makes the item from the text.
    pub(super) fn listed(
        &self,
        entry: &KeyAndValue<'a>,
        repaired: impl Fn(&str) -> String,
    ) -> Option<Vec<KeyAndValue<'a>>> {
        if let Some(items) = entry.value.as_array() {
            return Some(items.iter().map(|item| entry.item(item)).collect());
        }
        let written = match entry.value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                self.mismatch(entry, "a list of strings");
                return None;
            }
        };
        let (key, name, found) = (entry.key, &self.name, found(entry.value));
        let text = format!(
            "{key} in {name} is {found}, allowed is a list: write {key} = [{:?}]",
            repaired(&written)
        );
        self.fault_at(&entry.value_span, text);
        entry.value.as_str().map(|_| vec![entry.clone()])
    }
}
