//! The keys of the configuration. The table of a section defines each key once: its name, kind, default,
//! allowed values and text.
//!
//! The macro `keys!` makes such a table. A reader takes the values of a table by
//! [`Section::read`](super::section::Section::read). [`write()`] and [`inline`] print the values in the order
//! of the table. The table also says which keys need a restart, and which values the list of changes hides. A
//! test compares the tables of `docs/` with these tables.

use std::fmt;
use std::ops::RangeInclusive;

use super::units::{show_duration_ms, show_size};
use super::value::Value;

/// One key of a section whose values are stored in options of the type `O`.
pub(super) struct Key<O> {
    /// All facts of the key, without the place of its value.
    pub(super) facts: Facts,
    /// The place of the value in the options. `None`: the section reads and prints the value itself.
    field: Option<Field<O>>,
}

/// The place of a value in the options.
struct Field<O> {
    of: fn(&O) -> &dyn Value,
    of_mut: fn(&mut O) -> &mut dyn Value,
}

/// The facts of a key that do not depend on the type of the options.
pub(super) struct Facts {
    /// The name, as the file writes it.
    pub(super) name: &'static str,
    /// The meaning of the key. The description of the key in the documents begins with this text.
    text: &'static str,
    /// The form of a value, and the allowed values.
    pub(super) kind: Kind,
    /// The value if the file does not set the key.
    default: Unwritten,
    /// The exception to the default, in the words of the documents.
    exception: Option<&'static str>,
    /// The key of the same section whose value is the upper limit of this value.
    pub(super) limit: Option<&'static str>,
    /// Whether a default above the limit is lowered to the limit.
    pub(super) is_default_limited: bool,
    /// Whether the section reads the value itself, because its bounds or its default depend on other values.
    pub(super) is_read_by_hand: bool,
    /// The effect of a reload on a changed value.
    pub(super) reload: Reload,
    /// Whether a list of changes hides the value, because it may be a secret.
    pub(super) is_hidden: bool,
}

/// The form of a value, and the allowed values.
pub(super) enum Kind {
    /// Bytes, as a text with a unit.
    Size(RangeInclusive<u64>),
    /// Milliseconds, as a text with a unit.
    Duration(RangeInclusive<u64>),
    /// An integer.
    Integer(RangeInclusive<u64>),
    /// An integer, or a word that stands for 0.
    IntegerOr(&'static str, RangeInclusive<u64>),
    /// True or false.
    Switch,
    /// One of these names. The value is the index of the name.
    OneOf(fn() -> Vec<&'static str>),
    /// Only a variable of the environment. The section reads its value.
    Secret,
    /// Any other form, in the words of the documents. The section reads it.
    Other(
        #[cfg_attr(not(test), expect(dead_code, reason = "the test of the documents reads it"))] &'static str,
    ),
}

/// The value of a key that the file does not set.
#[derive(Clone, Copy)]
pub(super) enum Unwritten {
    /// A number: bytes, milliseconds, or an integer.
    Number(u64),
    /// True or false.
    Switch(bool),
    /// A name or a word.
    Word(&'static str),
    /// A text. The section reads this default from the table.
    Text(&'static str),
    /// A default that the section computes. The documents describe it in these words.
    Made(
        #[cfg_attr(not(test), expect(dead_code, reason = "the test of the documents reads it"))] &'static str,
    ),
}

/// The effect of a reload on a changed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reload {
    /// The new value applies from the reload on.
    Swapped,
    /// The present value applies until a restart.
    Restart,
}

/// Returns the facts of a size in bytes.
pub(super) const fn size(default: u64, range: RangeInclusive<u64>) -> Facts {
    Facts::new(Kind::Size(range), Unwritten::Number(default))
}

/// Returns the facts of a duration in milliseconds.
pub(super) const fn duration(default: u64, range: RangeInclusive<u64>) -> Facts {
    Facts::new(Kind::Duration(range), Unwritten::Number(default))
}

/// Returns the facts of an integer.
pub(super) const fn integer(default: u64, range: RangeInclusive<u64>) -> Facts {
    Facts::new(Kind::Integer(range), Unwritten::Number(default))
}

/// Returns the facts of an integer or a word. The word is the default.
pub(super) const fn integer_or(word: &'static str, range: RangeInclusive<u64>) -> Facts {
    Facts::new(Kind::IntegerOr(word, range), Unwritten::Word(word))
}

/// Returns the facts of a switch.
pub(super) const fn switch(default: bool) -> Facts {
    Facts::new(Kind::Switch, Unwritten::Switch(default))
}

/// Returns the facts of a key with one of several names as its value.
pub(super) const fn one_of(default: &'static str, names: fn() -> Vec<&'static str>) -> Facts {
    Facts::new(Kind::OneOf(names), Unwritten::Word(default))
}

/// Returns the facts of a secret in a variable of the environment. `default` is the documents' description of
/// a server without the secret.
pub(super) const fn secret(default: &'static str) -> Facts {
    Facts::new(Kind::Secret, Unwritten::Made(default))
}

/// Returns the facts of a text. `allowed` is the documents' description of the allowed texts.
pub(super) const fn text(default: &'static str, allowed: &'static str) -> Facts {
    Facts::new(Kind::Other(allowed), Unwritten::Text(default))
}

/// Returns the facts of any other value. The arguments are the documents' descriptions of the default and of
/// the allowed values.
pub(super) const fn other(default: &'static str, allowed: &'static str) -> Facts {
    Facts::new(Kind::Other(allowed), Unwritten::Made(default))
}

impl Facts {
    const fn new(kind: Kind, default: Unwritten) -> Self {
        Self {
            name: "",
            text: "",
            kind,
            default,
            exception: None,
            limit: None,
            is_default_limited: false,
            is_read_by_hand: false,
            reload: Reload::Swapped,
            is_hidden: false,
        }
    }

    /// Sets the name and the text. The text is a doc comment in the table, so it begins with a blank.
    pub(super) const fn named(mut self, name: &'static str, text: &'static str) -> Self {
        (self.name, self.text) = (name, text);
        self
    }

    /// Takes the default from another section. The documents describe this source in these words.
    pub(super) const fn inherits(mut self, default: &'static str) -> Self {
        self.default = Unwritten::Made(default);
        self
    }

    /// Adds an exception to the default: `default, or EXCEPTION`.
    pub(super) const fn or(mut self, exception: &'static str) -> Self {
        self.exception = Some(exception);
        self
    }

    /// Limits the value to the value of another key of the section.
    pub(super) const fn at_most(mut self, limit: &'static str) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Limits the value, and the default too.
    pub(super) const fn default_at_most(mut self, limit: &'static str) -> Self {
        self.is_default_limited = true;
        self.at_most(limit)
    }

    /// Lets the section read the value.
    pub(super) const fn by_hand(mut self) -> Self {
        self.is_read_by_hand = true;
        self
    }

    /// Keeps the present value until a restart.
    pub(super) const fn restart(mut self) -> Self {
        self.reload = Reload::Restart;
        self
    }

    /// Hides the value in a list of changes.
    pub(super) const fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    /// Returns the default as a number. `None`: the section computes the default.
    pub(super) fn default_number(&self) -> Option<u64> {
        match self.default {
            Unwritten::Number(number) => Some(number),
            Unwritten::Switch(is_on) => Some(is_on.into()),
            Unwritten::Word(word) => Some(self.number_of(word)),
            Unwritten::Text(_) | Unwritten::Made(_) => None,
        }
    }

    /// Returns the default of a text.
    pub(super) const fn default_text(&self) -> &'static str {
        match self.default {
            Unwritten::Text(text) => text,
            _ => "",
        }
    }

    /// Returns the number that a word stands for: the index of a name.
    fn number_of(&self, word: &str) -> u64 {
        let place = match &self.kind {
            Kind::OneOf(names) => names().iter().position(|name| *name == word),
            _ => None,
        };
        place.unwrap_or_default() as u64
    }

    /// Writes a value as TOML.
    pub(super) fn show(&self, value: u64) -> String {
        match &self.kind {
            Kind::Size(_) | Kind::Duration(_) => format!("\"{}\"", self.show_plain(value)),
            Kind::IntegerOr(word, _) if value == 0 => format!("\"{word}\""),
            Kind::Switch => (value != 0).to_string(),
            Kind::OneOf(names) => {
                let place = usize::try_from(value).unwrap_or_default();
                format!("\"{}\"", names().get(place).copied().unwrap_or_default())
            }
            Kind::Integer(_) | Kind::IntegerOr(..) | Kind::Secret | Kind::Other(_) => value.to_string(),
        }
    }

    /// Writes a size, a duration or an integer without quotes.
    pub(super) fn show_plain(&self, value: u64) -> String {
        match self.kind {
            Kind::Size(_) => show_size(value),
            Kind::Duration(_) => show_duration_ms(value),
            _ => value.to_string(),
        }
    }
}

#[cfg(test)]
impl Facts {
    /// Returns the text on one line.
    pub(super) fn text(&self) -> String {
        self.text.trim().to_owned()
    }

    /// Returns the default, as the documents write it.
    pub(super) fn default_cell(&self) -> String {
        let default = match self.default {
            Unwritten::Number(number) => format!("`{}`", self.show(number)),
            Unwritten::Switch(is_on) => format!("`{is_on}`"),
            Unwritten::Word(text) | Unwritten::Text(text) => format!("`\"{text}\"`"),
            Unwritten::Made(text) => text.to_owned(),
        };
        match (self.exception, self.limit.filter(|_| self.is_default_limited)) {
            (Some(exception), _) => format!("{default}, or {exception}"),
            (None, Some(limit)) => format!("{default}, or `{limit}` if that is less"),
            (None, None) => default,
        }
    }

    /// Returns the allowed values, as the documents write them.
    pub(super) fn allowed_cell(&self) -> String {
        let words =
            |words: Vec<&str>| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ");
        let allowed = match &self.kind {
            Kind::Size(range) | Kind::Duration(range) | Kind::Integer(range) => self.show_range(range),
            Kind::IntegerOr(word, range) => format!("`\"{word}\"`, {}", self.show_range(range)),
            Kind::Switch => words(vec!["true", "false"]),
            Kind::OneOf(names) => words(names()),
            Kind::Secret => "`\"${NAME}\"`: a variable".to_owned(),
            Kind::Other(allowed) => (*allowed).to_owned(),
        };
        self.limit.map_or(allowed.clone(), |limit| format!("{allowed}, at most `{limit}`"))
    }

    /// Returns whether the default is one of the allowed values.
    pub(super) fn has_sound_default(&self) -> bool {
        match (&self.kind, self.default) {
            (Kind::Size(range) | Kind::Duration(range) | Kind::Integer(range), Unwritten::Number(number)) => {
                range.contains(&number)
            }
            (Kind::OneOf(names), Unwritten::Word(word)) => names().contains(&word),
            (Kind::IntegerOr(other, _), Unwritten::Word(word)) => *other == word,
            (Kind::Switch, Unwritten::Switch(_)) | (Kind::Other(_), Unwritten::Text(_)) => true,
            (_, Unwritten::Made(_)) => true,
            _ => false,
        }
    }

    fn show_range(&self, range: &RangeInclusive<u64>) -> String {
        format!("{} to {}", self.show_plain(*range.start()), self.show_plain(*range.end()))
    }
}

impl<O> Key<O> {
    /// Makes a key that its section reads and prints.
    pub(super) const fn new(facts: Facts) -> Self {
        Self { facts, field: None }
    }

    /// Names the place of the value.
    pub(super) const fn at(self, of: fn(&O) -> &dyn Value, of_mut: fn(&mut O) -> &mut dyn Value) -> Self {
        Self { facts: self.facts, field: Some(Field { of, of_mut }) }
    }

    /// Returns the value in the options. `None`: the section reads and prints the value itself.
    pub(super) fn number(&self, options: &O) -> Option<u64> {
        self.field.as_ref().map(|field| (field.of)(options).number())
    }

    /// Puts a value into the options.
    pub(super) fn set(&self, options: &mut O, number: u64) {
        if let Some(field) = &self.field {
            (field.of_mut)(options).set(number);
        }
    }
}

/// Puts the defaults into the options.
pub(super) fn set_defaults<O>(keys: &[Key<O>], options: &mut O) {
    for key in keys {
        if let Some(number) = key.facts.default_number() {
            key.set(options, number);
        }
    }
}

/// A value that a section prints itself: the name of its key, and the value as TOML. `None`: it is not
/// printed.
pub(super) type OwnValue = (&'static str, Option<String>);

/// Writes the keys of a section, each on a line, in the order of their table.
pub(super) fn write<O>(
    keys: &[Key<O>],
    options: &O,
    own: &[OwnValue],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    shown(keys, options, own).iter().try_for_each(|(name, value)| writeln!(f, "{name} = {value}"))
}

/// Returns the keys of a section as an inline table, in the order of their table.
pub(super) fn inline<O>(keys: &[Key<O>], options: &O, own: &[OwnValue]) -> String {
    inline_of(&shown(keys, options, own))
}

/// Returns a table of these keys and values on one line.
pub(super) fn inline_of(keys: &[(&'static str, String)]) -> String {
    let keys: Vec<_> = keys.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!("{{ {} }}", keys.join(", "))
}

/// Returns the keys of a table with their values, as TOML.
pub(super) fn shown<O>(keys: &[Key<O>], options: &O, own: &[OwnValue]) -> Vec<(&'static str, String)> {
    let value = |key: &Key<O>| match own.iter().find(|(name, _)| *name == key.facts.name) {
        Some((_, value)) => value.clone(),
        None => key.number(options).map(|number| key.facts.show(number)),
    };
    keys.iter().filter_map(|key| Some((key.facts.name, value(key)?))).collect()
}

/// Makes the table of a section.
///
/// An entry is `/// TEXT`, then `name = kind(default, allowed);`. `[NAME]` after the name makes a constant. A
/// section needs it to read or print the key itself. `=> path` names the field of the options that has the
/// value.
macro_rules! keys {
    (
        $(#[$meta:meta])* $visible:vis $table:ident of $options:ty;
        $(
            $(#[doc = $text:literal])+
            $name:ident $([$constant:ident])? = $kind:ident($($argument:tt)*)
                $(.$with:ident($($with_argument:tt)*))* $(=> $($field:ident).+)?;
        )+
    ) => {
        $(#[$meta])*
        $visible const $table: &[$crate::config::key::Key<$options>] = &[$(
            $crate::config::key::Key::<$options>::new(
                $crate::config::key::$kind($($argument)*)$(.$with($($with_argument)*))*
                    .named(stringify!($name), concat!($($text),+))
            )$(.at(|options| &options.$($field).+, |options| &mut options.$($field).+))?,
        )+];
        $($crate::config::key::constant!(
            $visible [$($constant)?]
            $crate::config::key::$kind($($argument)*)$(.$with($($with_argument)*))*
                .named(stringify!($name), concat!($($text),+))
        );)+
    };
}

/// Makes the constant of an entry of `keys!`.
macro_rules! constant {
    ($visible:vis [] $facts:expr) => {};
    ($visible:vis [$constant:ident] $facts:expr) => {
        $visible const $constant: $crate::config::key::Facts = $facts;
    };
}

pub(super) use {constant, keys};
