//! A reader of one table of the file. The reader takes the keys of the table one by one, then reports the
//! unknown keys.
//!
//! For a missing or faulty key the caller uses its default, so that reading continues and finds the next
//! fault.

mod brackets;
pub(super) mod other_servers;

use std::fmt::Display;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::env::{Environment, substitute};
use super::fault::{Fault, Faults, Group, Location, Span, did_you_mean};
use super::key::{Facts, Key, Kind, set_defaults};
use super::units::{parse_duration, parse_size};

/// The list of faults, and the function that returns variables.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The faults so far.
    pub(super) faults: &'a Faults<'a>,
    /// Function that returns the value of an environment variable.
    pub(super) env: Environment<'a>,
}

/// A value and its place in the file.
#[derive(Debug, Clone)]
pub(super) struct Written<T> {
    /// The value in the file.
    pub(super) value: T,
    /// The place of the value in the file.
    pub(super) span: Span,
}

/// A value in its short or its long form.
pub(super) enum TextOrTable<'a> {
    /// The short form.
    Text(Written<String>),
    /// The long form.
    Table(Section<'a>),
}

/// A switch, or a table with the details.
pub(super) enum SwitchOrTable<'a> {
    /// The short form.
    Switch(Written<bool>),
    /// The long form.
    Table(Section<'a>),
}

/// One table of the file, with its name in faults: `[log]`, `[[route]]`.
pub(super) struct Section<'a> {
    context: Context<'a>,
    name: String,
    span: Span,
    entries: Vec<KeyAndValue<'a>>,
    known: Vec<&'static str>,
    /// The names of the section's keys, in the order in which faults list them.
    table: Vec<&'static str>,
}

#[derive(Clone)]
struct KeyAndValue<'a> {
    key: &'a str,
    key_span: Span,
    value: &'a DeValue<'a>,
    value_span: Span,
}

impl<'a> Section<'a> {
    /// Reads a table. Its keys are in the order of the file.
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
        Self { context, name: name.into(), span, entries, known: Vec::new(), table: Vec::new() }
    }

    fn empty(&self, name: String) -> Self {
        let span = self.span.clone();
        Self { context: self.context, name, span, entries: Vec::new(), known: Vec::new(), table: Vec::new() }
    }

    /// Returns the name of the table in faults.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the place of the table in the file.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the place of a span, for a fault that names two places or is found later.
    pub(super) fn spot(&self, span: &Span) -> Location {
        self.context.faults.spot(span)
    }

    /// Adds faults that were found elsewhere.
    pub(super) fn add_faults(&self, faults: Vec<Fault>) {
        self.context.faults.extend(faults);
    }

    /// Returns whether a group of keys has a fault.
    pub(super) fn has_fault_of(&self, group: Group) -> bool {
        self.context.faults.has_of(group)
    }

    /// Adds a fault of the whole section.
    pub(super) fn fault(&self, text: impl Display) {
        self.context.faults.add(&self.span, text.to_string());
    }

    /// Adds a fault at a place.
    pub(super) fn fault_at(&self, span: &Span, text: impl Display) {
        self.context.faults.add(span, text.to_string());
    }

    /// Adds a fault of a key whose value is valid by itself. If the file does not set the key, the fault has
    /// the place of the section.
    pub(super) fn fault_of(&self, key: &str, text: impl Display) {
        let written = self.entries.iter().find(|entry| entry.key == key);
        self.fault_at(written.map_or(&self.span, |entry| &entry.value_span), text);
    }

    /// Takes a text.
    pub(super) fn text(&mut self, key: &'static str) -> Option<Written<String>> {
        let entry = self.take(key)?;
        self.text_of(&entry, "a string")
    }

    /// Returns a text before its variables are replaced. The key is not taken.
    pub(super) fn as_written(&self, key: &str) -> Option<&'a str> {
        self.entries.iter().find(|entry| entry.key == key)?.value.as_str()
    }

    /// Takes all keys with their texts.
    pub(super) fn named_texts(self) -> Vec<(String, Written<String>)> {
        let text = |entry: &KeyAndValue<'_>| Some((entry.key.to_owned(), self.text_of(entry, "a string")?));
        self.entries.iter().filter_map(text).collect()
    }

    /// Takes all keys with their texts, each also as it was before its variables were replaced.
    pub(super) fn named_secrets(self) -> Vec<(String, String, Written<String>)> {
        let text = |entry: &KeyAndValue<'_>| {
            let text = self.text_of(entry, "a string")?;
            Some((entry.key.to_owned(), entry.value.as_str()?.to_owned(), text))
        };
        self.entries.iter().filter_map(text).collect()
    }

    /// Takes all keys with their values as JSON. A value is a text, an integer, a switch, or a list of these.
    pub(super) fn named_values(self, allowed: &str) -> Vec<(String, Vec<serde_json::Value>)> {
        let values = |entry: &KeyAndValue<'a>| {
            let items = match entry.value.as_array() {
                Some(items) => items.iter().map(|item| entry.item(item)).collect(),
                None => vec![entry.clone()],
            };
            let values = items.iter().map(|item| self.simple(item, allowed)).collect::<Option<Vec<_>>>()?;
            Some((entry.key.to_owned(), values))
        };
        self.entries.iter().filter_map(values).collect()
    }

    fn simple(&self, entry: &KeyAndValue<'_>, allowed: &str) -> Option<serde_json::Value> {
        match entry.value {
            DeValue::String(_) => self.text_of(entry, allowed).map(|text| text.value.into()),
            DeValue::Boolean(value) => Some((*value).into()),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(Into::into)
            }
            _ => {
                self.mismatch(entry, allowed);
                None
            }
        }
    }

    /// Takes a key without reading its value, because it has a fault already.
    pub(super) fn skip(&mut self, key: &'static str) {
        self.known.push(key);
    }

    /// Takes keys without reading their values, because they have a fault already.
    pub(super) fn ignore<O>(&mut self, keys: &[Key<O>]) {
        self.known.extend(keys.iter().map(|key| key.facts.name));
    }

    /// Takes a text that is required.
    pub(super) fn needed_text(&mut self, key: &'static str) -> Option<Written<String>> {
        if !self.has(key) {
            self.known.push(key);
            self.fault(format!("missing key \"{key}\" in {}", self.name));
            return None;
        }
        self.text(key)
    }

    /// Takes a list of texts. Also returns `None` if all items are faulty. An empty list would mean that the
    /// file has no items.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<Vec<Written<String>>> {
        let entry = self.take(key)?;
        let items = self.listed(&entry, str::to_owned)?;
        let texts: Vec<_> = items.iter().filter_map(|item| self.text_of(item, "a string")).collect();
        (items.is_empty() || !texts.is_empty()).then_some(texts)
    }

    /// Takes a text or a list of texts. Each text follows its form before its variables were replaced.
    pub(super) fn text_or_texts(
        &mut self,
        key: &'static str,
        allowed: &str,
    ) -> Vec<(&'a str, Written<String>)> {
        let Some(entry) = self.take(key) else { return Vec::new() };
        let items = match entry.value {
            DeValue::Array(items) => items.iter().map(|item| entry.item(item)).collect(),
            _ => vec![entry],
        };
        let text = |item: &KeyAndValue<'a>| {
            let text = self.text_of(item, allowed)?;
            Some((item.value.as_str().unwrap_or_default(), text))
        };
        items.iter().filter_map(text).collect()
    }

    /// Takes a list of texts and tables. Also returns `None` if all items are faulty. `repaired` makes an
    /// item from a text that stands alone.
    pub(super) fn items(
        &mut self,
        key: &'static str,
        repaired: impl Fn(&str) -> String,
    ) -> Option<Vec<TextOrTable<'a>>> {
        let entry = self.take(key)?;
        let items = self.listed(&entry, repaired)?;
        let found = items.iter().filter_map(|item| match item.value.as_table() {
            Some(_) => self.table_of(item, format!("{key} of {}", self.name)).map(TextOrTable::Table),
            None => self.text_of(item, "a string").map(TextOrTable::Text),
        });
        let found: Vec<_> = found.collect();
        (items.is_empty() || !found.is_empty()).then_some(found)
    }

    /// Takes the values of a table of keys. Keys that the file does not set get the defaults of the table.
    pub(super) fn read<O>(&mut self, keys: &[Key<O>], options: &mut O) {
        set_defaults(keys, options);
        self.overlay(keys, options);
    }

    /// Takes the values of a table of keys. Options of keys that the file does not set keep their values.
    pub(super) fn overlay<O>(&mut self, keys: &[Key<O>], options: &mut O) {
        self.table.extend(keys.iter().map(|key| key.facts.name));
        for key in keys.iter().filter(|key| !key.facts.is_read_by_hand) {
            if let Some(number) = self.number(&key.facts) {
                key.set(options, number);
            }
        }
        for key in keys {
            let limit = key.facts.limit.and_then(|name| keys.iter().find(|other| other.facts.name == name));
            if let Some(limit) = limit {
                self.check_limit(key, limit, options);
            }
        }
    }

    /// Checks a value against the limit from another key.
    fn check_limit<O>(&self, key: &Key<O>, limit: &Key<O>, options: &mut O) {
        let (Some(found), Some(most)) = (key.number(options), limit.number(options)) else { return };
        if found <= most {
            return;
        }
        let (name, limit_name) = (key.facts.name, limit.facts.name);
        if key.facts.is_default_limited && !self.has(name) {
            return key.set(options, most);
        }
        let (found, most) = (key.facts.show_plain(found), limit.facts.show_plain(most));
        let written = if self.has(name) { name } else { limit_name };
        self.fault_of(written, format!("{name} is {found}, limit is {most}, the value of {limit_name}"));
    }

    /// Takes the value of a key as a number. `None`: the value is missing or faulty, or the section reads it.
    pub(super) fn number(&mut self, key: &Facts) -> Option<u64> {
        match &key.kind {
            Kind::Size(range) | Kind::Duration(range) | Kind::Integer(range) | Kind::IntegerOr(_, range) => {
                self.number_within(key, range.clone())
            }
            Kind::Switch => self.switch(key.name).map(|written| written.value.into()),
            Kind::OneOf(names) => self.place_of(key.name, &names()),
            Kind::Secret | Kind::Other(_) => None,
        }
    }

    /// Takes the value of a key as a number, or its default.
    pub(super) fn number_or_default(&mut self, key: &Facts) -> u64 {
        self.number(key).or_else(|| key.default_number()).unwrap_or_default()
    }

    /// Takes a size, a duration or an integer whose bounds are narrower than the bounds in the table of keys.
    pub(super) fn number_within(&mut self, key: &Facts, range: RangeInclusive<u64>) -> Option<u64> {
        let (least, most) = (key.show_plain(*range.start()), key.show_plain(*range.end()));
        match key.kind {
            Kind::Size(_) => {
                let allowed = format!("a size from {least} to {most} like \"64MiB\", units B, KiB, MiB, GiB");
                self.measure(key.name, range, &allowed, parse_size)
            }
            Kind::Duration(_) => {
                let allowed = format!("a duration from {least} to {most} like \"10s\", units ms, s, m, h");
                self.measure(key.name, range, &allowed, parse_duration)
            }
            Kind::IntegerOr(word, _) => self.integer_or(key.name, range, word),
            _ => self.integer_or(key.name, range, ""),
        }
    }

    /// Takes one of several names. Returns its index.
    fn place_of(&mut self, key: &'static str, names: &[&str]) -> Option<u64> {
        let text = self.text(key)?;
        let found = names.iter().position(|name| *name == text.value);
        if found.is_none() {
            let hint = did_you_mean(&text.value, names.iter().copied());
            self.fault_at(&text.span, format!("{key} in {} is {:?}{hint}", self.name, text.value));
        }
        found.map(|place| place as u64)
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

    /// Takes an integer, or the word `other`, which means 0.
    fn integer_or(&mut self, key: &'static str, range: RangeInclusive<u64>, other: &str) -> Option<u64> {
        let entry = self.take(key)?;
        if !other.is_empty() && entry.value.as_str() == Some(other) {
            return Some(0);
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
                // A decimal keeps all digits.
                Ok(finite) if finite.is_finite() && is_json_number(number.as_str()) => {
                    number.as_str().to_owned()
                }
                Ok(finite) if finite.is_finite() => format!("{finite:?}"),
                _ => number.to_string(),
            },
            DeValue::Array(_) | DeValue::Table(_) => {
                self.mismatch(
                    &entry,
                    "a string, a number, a time, true or false (JSON is written as a string)",
                );
                return None;
            }
        };
        Some(Written { value, span: entry.value_span })
    }

    /// Takes a secret. The value must be a variable of the environment, so that the file never holds the
    /// secret. Returns the name of the variable, and its value.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<(Written<String>, String)> {
        let entry = self.take(key)?;
        let name = entry.value.as_str().and_then(|text| text.strip_prefix("${")?.strip_suffix('}'));
        let name = name.filter(|name| !name.contains(['{', '}', '$'])).map(str::to_owned);
        let Some(name) = name else {
            // The value may be the secret itself, so the fault does not show it.
            let text = format!(
                "{key} in {} is not a variable, allowed is \"${{NAME}}\" and nothing else: secrets do not \
                 belong in the file",
                self.name
            );
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

    /// Takes a table. A missing table is read as an empty table.
    pub(super) fn table(&mut self, key: &'static str) -> Self {
        self.take_table(key, format!("[{key}]")).unwrap_or_else(|| self.empty(format!("[{key}]")))
    }

    /// Takes a table that may be missing.
    pub(super) fn take_table(&mut self, key: &'static str, name: String) -> Option<Self> {
        let entry = self.take(key)?;
        self.table_of(&entry, name)
    }

    /// Takes a value that is a text or a table.
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

    /// Takes a value that is a switch or a table.
    pub(super) fn switch_or_table(&mut self, key: &'static str, allowed: &str) -> Option<SwitchOrTable<'a>> {
        let entry = self.take(key)?;
        match entry.value {
            DeValue::Boolean(value) => {
                Some(SwitchOrTable::Switch(Written { value: *value, span: entry.value_span }))
            }
            DeValue::Table(_) => self.table_of(&entry, key.to_owned()).map(SwitchOrTable::Table),
            _ => {
                self.mismatch(&entry, allowed);
                None
            }
        }
    }

    /// Takes a table of tables. Each of these tables has a different name.
    pub(super) fn named_tables(&mut self, key: &'static str) -> Vec<(Written<String>, Self)> {
        if let Some(tables) = self.unnamed(key) {
            return tables;
        }
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

    /// Takes a list of tables. Faults give all these tables the same name.
    pub(super) fn tables(&mut self, key: &'static str, name: &str, allowed: &str) -> Option<Vec<Self>> {
        let entry = self.take(key)?;
        self.several(&entry, name, allowed)
    }

    /// Takes a table, or a list of tables. Faults give all these tables the same name.
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

    /// Returns whether the file sets a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Adds a fault for each key that was not taken. Every section calls this function last.
    pub(super) fn finish(mut self) {
        let place = |name: &&str| self.table.iter().position(|known| known == name);
        self.known.sort_by_key(place);
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&entry.key)) {
            let text = format!("unknown key \"{}\" in {}", entry.key, self.name);
            if let Some((group, remedy)) = self.of_other_servers(entry) {
                self.context.faults.add_of(group, &entry.key_span, format!("{text}: {remedy}"));
                continue;
            }
            let hint = did_you_mean(entry.key, self.known.iter().copied());
            self.fault_at(&entry.key_span, format!("{text}{hint}"));
        }
    }

    fn take(&mut self, key: &'static str) -> Option<KeyAndValue<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.entries.iter().find(|entry| entry.key == key).cloned()
    }

    fn table_of(&self, entry: &KeyAndValue<'a>, name: String) -> Option<Self> {
        if name.starts_with('[')
            && let Some(first) = self.single(entry, &name)
        {
            return self.table_of(&first, name);
        }
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
    /// Returns an item of the list in the entry.
    fn item(&self, item: &'a Spanned<DeValue<'a>>) -> Self {
        Self { value: item.get_ref(), value_span: item.span(), ..self.clone() }
    }
}

/// Returns whether the text of a finite number is a number of JSON too. TOML also allows `+1.0` and
/// `1_000.0`.
fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// Returns the kind of a value, with the value itself if it is short.
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
