//! A reader of one table of the file: takes its keys one by one, then reports those that nobody knows.
//!
//! A key that is missing or faulty gives the default that the caller names, so that reading goes on to the
//! next fault.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::env::{Environment, substitute};
use super::fault::{Fault, Faults, Location, Span, did_you_mean};
use super::units::{parse_duration, parse_size, show_duration_ms, show_size};

/// Where faults go and variables come from.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The faults so far.
    pub(super) faults: &'a Faults<'a>,
    /// The environment.
    pub(super) env: Environment<'a>,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Written<T> {
    /// The value.
    pub(super) value: T,
    /// Its place.
    pub(super) span: Span,
}

/// A value that may be short or long.
pub(super) enum TextOrTable<'a> {
    /// The short one.
    Text(Written<String>),
    /// The long one.
    Table(Section<'a>),
}

/// One table of the file, by its name in faults: `[log]`, `[[route]]`.
pub(super) struct Section<'a> {
    context: Context<'a>,
    name: String,
    span: Span,
    entries: Vec<KeyAndValue<'a>>,
    known: Vec<&'static str>,
}

#[derive(Clone)]
struct KeyAndValue<'a> {
    key: &'a str,
    key_span: Span,
    value: &'a DeValue<'a>,
    value_span: Span,
}

impl<'a> Section<'a> {
    /// Reads a table; keys come in the order of the file.
    pub(super) fn new(
        context: Context<'a>,
        name: impl Into<String>,
        span: Span,
        table: &'a DeTable<'a>,
    ) -> Self {
        let mut entries: Vec<_> = table
            .iter()
            .map(|(key, value)| KeyAndValue {
                key: key.get_ref(),
                key_span: key.span(),
                value: value.get_ref(),
                value_span: value.span(),
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        Self { context, name: name.into(), span, entries, known: Vec::new() }
    }

    fn empty(&self, name: String) -> Self {
        Self { context: self.context, name, span: self.span.clone(), entries: Vec::new(), known: Vec::new() }
    }

    /// Its name in faults.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it stands.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// A place, for a fault that names another one or is found later.
    pub(super) fn spot(&self, span: &Span) -> Location {
        self.context.faults.spot(span)
    }

    /// Adds faults that were found elsewhere.
    pub(super) fn add_faults(&self, faults: Vec<Fault>) {
        self.context.faults.extend(faults);
    }

    /// Adds a fault of the whole section.
    pub(super) fn fault(&self, text: impl Display) {
        self.context.faults.add(&self.span, text.to_string());
    }

    /// Adds a fault at a place.
    pub(super) fn fault_at(&self, span: &Span, text: impl Display) {
        self.context.faults.add(span, text.to_string());
    }

    /// Adds a fault of a key that is right by itself; where nobody wrote it, of the section.
    pub(super) fn fault_of(&self, key: &str, text: impl Display) {
        let written = self.entries.iter().find(|entry| entry.key == key);
        self.fault_at(written.map_or(&self.span, |entry| &entry.value_span), text);
    }

    /// The first of the keys that somebody wrote; the first one where nobody did.
    pub(super) fn first_of<const N: usize>(&self, keys: [&'static str; N]) -> &'static str {
        keys.into_iter().find(|key| self.has(key)).unwrap_or(keys[0])
    }

    /// Takes a text.
    pub(super) fn text(&mut self, key: &'static str) -> Option<Written<String>> {
        let entry = self.take(key)?;
        self.text_of(&entry, "a string")
    }

    /// A text before its variables are replaced; it is not taken.
    pub(super) fn as_written(&self, key: &str) -> Option<&'a str> {
        self.entries.iter().find(|entry| entry.key == key)?.value.as_str()
    }

    /// Takes all keys with their texts.
    pub(super) fn named_texts(self) -> Vec<(String, Written<String>)> {
        let text = |entry: &KeyAndValue<'_>| Some((entry.key.to_owned(), self.text_of(entry, "a string")?));
        self.entries.iter().filter_map(text).collect()
    }

    /// Takes a text that has to be there.
    pub(super) fn needed_text(&mut self, key: &'static str) -> Option<Written<String>> {
        if !self.has(key) {
            self.known.push(key);
            self.fault(format!("missing key \"{key}\" in {}", self.name));
            return None;
        }
        self.text(key)
    }

    /// Takes a list of texts. None also if all that it has are faulty: it is not an empty one.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<Vec<Written<String>>> {
        let entry = self.take(key)?;
        let Some(items) = entry.value.as_array() else {
            self.mismatch(&entry, "a list of strings");
            return None;
        };
        let texts: Vec<_> =
            items.iter().filter_map(|item| self.text_of(&entry.item(item), "a string")).collect();
        (items.is_empty() || !texts.is_empty()).then_some(texts)
    }

    /// Takes a list of texts and tables. None also if all that it has are faulty.
    pub(super) fn items(&mut self, key: &'static str) -> Option<Vec<TextOrTable<'a>>> {
        let entry = self.take(key)?;
        let Some(items) = entry.value.as_array() else {
            self.mismatch(&entry, "a list of strings");
            return None;
        };
        let found =
            items.iter().map(|item| entry.item(item)).filter_map(|item| match item.value.as_table() {
                Some(_) => self.table_of(&item, format!("{key} of {}", self.name)).map(TextOrTable::Table),
                None => self.text_of(&item, "a string").map(TextOrTable::Text),
            });
        let found: Vec<_> = found.collect();
        (items.is_empty() || !found.is_empty()).then_some(found)
    }

    /// Takes one of several names.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = choices.iter().find(|(name, _)| *name == text.value);
        if found.is_none() {
            let hint = did_you_mean(&text.value, choices.iter().map(|(name, _)| *name));
            self.fault_at(&text.span, format!("{key} in {} is {:?}{hint}", self.name, text.value));
        }
        found.map(|(_, choice)| *choice)
    }

    /// Takes a size in bytes.
    pub(super) fn size<T: TryFrom<u64>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: T,
    ) -> T {
        let allowed = format!("a size from {} to {}", show_size(*range.start()), show_size(*range.end()));
        let allowed = format!("{allowed} like \"64MiB\", units B, KiB, MiB, GiB");
        self.measure(key, range, &allowed, parse_size)
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or(default)
    }

    /// Takes a duration, bounded in milliseconds.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        range_ms: RangeInclusive<u64>,
        default: Duration,
    ) -> Duration {
        let (least, most) = (show_duration_ms(*range_ms.start()), show_duration_ms(*range_ms.end()));
        let allowed = format!("a duration from {least} to {most} like \"10s\", units ms, s, m, h");
        self.measure(key, range_ms, &allowed, parse_duration).map_or(default, Duration::from_millis)
    }

    fn measure(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        allowed: &str,
        parse: fn(&str) -> Option<u64>,
    ) -> Option<u64> {
        let entry = self.take(key)?;
        let text = self.text_of(&entry, allowed)?;
        let found = parse(&text.value).filter(|found| range.contains(found));
        if found.is_none() {
            let text = format!("{key} in {} is {:?}, allowed is {allowed}", self.name, text.value);
            self.fault_at(&entry.value_span, text);
        }
        found
    }

    /// Takes an integer.
    pub(super) fn integer<T: TryFrom<u64>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: T,
    ) -> T {
        self.integer_or(key, range, "").and_then(|found| found.try_into().ok()).unwrap_or(default)
    }

    /// Takes an integer, or the word `other`, which gives none.
    pub(super) fn integer_or(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        other: &str,
    ) -> Option<u64> {
        let entry = self.take(key)?;
        if !other.is_empty() && entry.value.as_str() == Some(other) {
            return None;
        }
        let mut allowed = format!("an integer from {} to {}", range.start(), range.end());
        if !other.is_empty() {
            allowed = format!("\"{other}\" or {allowed}");
        }
        let Some(integer) = entry.value.as_integer() else {
            self.mismatch(&entry, &allowed);
            return None;
        };
        let found = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let found = found.filter(|found| range.contains(found));
        if found.is_none() {
            let text = format!("{key} in {} is {integer}, allowed is {allowed}", self.name);
            self.fault_at(&entry.value_span, text);
        }
        found
    }

    /// Takes a single value of any kind, as JSON.
    pub(super) fn json(&mut self, key: &'static str) -> Option<Written<String>> {
        let entry = self.take(key)?;
        let value = match entry.value {
            DeValue::String(_) => {
                serde_json::Value::from(self.text_of(&entry, "a string")?.value).to_string()
            }
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(time) => format!("\"{time}\""),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => number.to_string(),
                Err(_) => number.to_string(),
            },
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => format!("{number:?}"),
                _ => number.to_string(),
            },
            DeValue::Array(_) | DeValue::Table(_) => {
                self.mismatch(&entry, "a string, a number, a time, true or false; JSON comes as a string");
                return None;
            }
        };
        Some(Written { value, span: entry.value_span })
    }

    /// Takes a secret: a variable of the environment and nothing else, so that the file never holds it. Gives
    /// the name of the variable, and what it holds.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<(Written<String>, String)> {
        let entry = self.take(key)?;
        let name = entry.value.as_str().and_then(|text| text.strip_prefix("${")?.strip_suffix('}'));
        let name = name.filter(|name| !name.contains(['{', '}', '$'])).map(str::to_owned);
        let Some(name) = name else {
            // What stands there may be the secret itself.
            let text = format!("{key} in {} is no variable, allowed is \"${{NAME}}\" alone", self.name);
            self.fault_at(&entry.value_span, text);
            return None;
        };
        let secret = self.text_of(&entry, "a variable")?.value;
        Some((Written { value: name, span: entry.value_span }, secret))
    }

    /// Takes a switch.
    pub(super) fn switch(&mut self, key: &'static str) -> Option<Written<bool>> {
        let entry = self.take(key)?;
        match entry.value.as_bool() {
            Some(value) => Some(Written { value, span: entry.value_span }),
            None => {
                self.mismatch(&entry, "true or false");
                None
            }
        }
    }

    /// Takes a table; one that is missing is read as an empty one.
    pub(super) fn table(&mut self, key: &'static str) -> Self {
        self.take_table(key, format!("[{key}]")).unwrap_or_else(|| self.empty(format!("[{key}]")))
    }

    /// Takes a table that may be missing.
    pub(super) fn take_table(&mut self, key: &'static str, name: String) -> Option<Self> {
        let entry = self.take(key)?;
        self.table_of(&entry, name)
    }

    /// Takes what is a text or a table.
    pub(super) fn text_or_table(&mut self, key: &'static str, allowed: &str) -> Option<TextOrTable<'a>> {
        let entry = self.take(key)?;
        match entry.value {
            DeValue::String(_) => self.text_of(&entry, allowed).map(TextOrTable::Text),
            DeValue::Table(_) => self.table_of(&entry, key.to_owned()).map(TextOrTable::Table),
            _ => {
                self.mismatch(&entry, allowed);
                None
            }
        }
    }

    /// Takes a table of tables: each with its own name.
    pub(super) fn named_tables(&mut self, key: &'static str) -> Vec<(Written<String>, Self)> {
        let tables = self.table(key);
        tables
            .entries
            .iter()
            .filter_map(|entry| {
                let table = tables.table_of(entry, format!("[{key}.{}]", entry.key))?;
                Some((Written { value: entry.key.to_owned(), span: entry.key_span.clone() }, table))
            })
            .collect()
    }

    /// Takes a list of tables, all of one name in faults.
    pub(super) fn tables(&mut self, key: &'static str, name: &str, allowed: &str) -> Option<Vec<Self>> {
        let entry = self.take(key)?;
        let Some(items) = entry.value.as_array() else {
            self.mismatch(&entry, allowed);
            return None;
        };
        Some(items.iter().filter_map(|item| self.table_of(&entry.item(item), name.to_owned())).collect())
    }

    /// Takes a table, or a list of tables, all of one name in faults.
    pub(super) fn table_or_tables(&mut self, key: &'static str, allowed: &str) -> Vec<Self> {
        match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) if entry.value.as_table().is_some() => {
                self.take_table(key, key.to_owned()).into_iter().collect()
            }
            _ => self.tables(key, key, allowed).unwrap_or_default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Adds a fault for each key that was not taken. Every section ends with it.
    pub(super) fn finish(self) {
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&entry.key)) {
            let hint = did_you_mean(entry.key, self.known.iter().copied());
            self.fault_at(&entry.key_span, format!("unknown key \"{}\" in {}{hint}", entry.key, self.name));
        }
    }

    fn take(&mut self, key: &'static str) -> Option<KeyAndValue<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.iter().find(|entry| entry.key == key).cloned()
    }

    fn table_of(&self, entry: &KeyAndValue<'a>, name: String) -> Option<Self> {
        let Some(table) = entry.value.as_table() else {
            let allowed =
                if name.starts_with('[') { format!("a table {name}") } else { "a table { ... }".to_owned() };
            self.mismatch(entry, &allowed);
            return None;
        };
        Some(Self::new(self.context, name, entry.value_span.clone(), table))
    }

    fn text_of(&self, entry: &KeyAndValue<'_>, allowed: &str) -> Option<Written<String>> {
        let Some(text) = entry.value.as_str() else {
            self.mismatch(entry, allowed);
            return None;
        };
        match substitute(text, self.context.env) {
            Ok(value) => Some(Written { value, span: entry.value_span.clone() }),
            Err(faults) => {
                for fault in faults {
                    self.fault_at(&entry.value_span, format!("{} in {}: {fault}", entry.key, self.name));
                }
                None
            }
        }
    }

    fn mismatch(&self, entry: &KeyAndValue<'_>, allowed: &str) {
        let text = format!("{} in {} is {}, allowed is {allowed}", entry.key, self.name, found(entry.value));
        self.fault_at(&entry.value_span, text);
    }
}

impl<'a> KeyAndValue<'a> {
    /// An item of the list that the entry holds.
    fn item(&self, item: &'a Spanned<DeValue<'a>>) -> Self {
        Self { value: item.get_ref(), value_span: item.span(), ..self.clone() }
    }
}

/// What a value is, with the value itself where it is short.
fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {text:?}"),
        DeValue::Integer(number) => format!("the integer {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => format!("the time {time}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
