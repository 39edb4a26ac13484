//! Accepts the value of a column. An implementation writes into the row, or applies the rules of the column
//! first.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tollgate_log::{ColumnType, ElementType, RowEncoder, Value, ValueError};

use crate::options::stream::{Absent, BytesMax, ColumnRules, Overlong, Redaction, TimeRules, network};

/// Accepts the value of one column.
pub(crate) trait ColumnWriter {
    /// Writes the value.
    ///
    /// # Errors
    /// The column does not accept the value.
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError>;
}

impl ColumnWriter for RowEncoder<'_> {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        RowEncoder::push(self, value)
    }
}

/// The column to which a value belongs.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    pub(crate) times: TimeRules,
    /// Whether `"3"`, `"true"` and `3.0` fit as well.
    pub(crate) coerce: bool,
    /// Whether errors must not show the values of the column.
    pub(crate) is_hidden: bool,
}

impl Target {
    /// Returns the target of the elements of an array column.
    pub(super) fn of_elements(&self, element: ElementType) -> Self {
        let (name, times) = (self.name.clone(), self.times.clone());
        let (kind, coerce, is_hidden) = (element.column_type(), self.coerce, self.is_hidden);
        Self { name, kind, times, coerce, is_hidden }
    }
}

/// The rules of a column, prepared for use.
#[derive(Debug)]
pub(crate) struct PreparedRules {
    absent: Absent,
    bytes_max: Option<BytesMax>,
    hiding: Hiding,
}

enum Hiding {
    Nothing,
    Drop,
    Hash(Box<Hmac<Sha256>>),
    Truncate,
}

impl std::fmt::Debug for Hiding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Drop => "Drop",
            Self::Hash(_) => "Hash",
            Self::Truncate => "Truncate",
        })
    }
}

impl PreparedRules {
    /// Returns `None` if the column has no rules.
    pub(crate) fn new(rules: &ColumnRules) -> Option<Self> {
        (!rules.is_empty()).then(|| Self {
            absent: rules.absent.clone(),
            bytes_max: rules.bytes_max,
            hiding: match &rules.redaction {
                None => Hiding::Nothing,
                Some(Redaction::Drop) => Hiding::Drop,
                Some(Redaction::Hash(key)) => keyed(&key.secret),
                Some(Redaction::Truncate) => Hiding::Truncate,
            },
        })
    }
}

/// Prepares an HMAC, which accepts keys of any length. If the HMAC ever refused a key, the values would
/// become null rather than be stored without a hash.
fn keyed(secret: &[u8]) -> Hiding {
    Hmac::new_from_slice(secret).map_or(Hiding::Drop, |mac| Hiding::Hash(Box::new(mac)))
}

/// Applies the rules of a column to its value.
pub(crate) struct Ruled<'a, C> {
    pub(crate) target: &'a Target,
    pub(crate) rules: &'a PreparedRules,
    pub(crate) row: &'a mut C,
}

impl<C: ColumnWriter> ColumnWriter for Ruled<'_, C> {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        let value = match (value, &self.rules.absent) {
            (Value::Null, Absent::Null) => Value::Null,
            (Value::Null, Absent::Reject) => {
                return Err(ValueError::Missing { column: self.target.name.clone() });
            }
            (Value::Null, Absent::Default(default)) => return self.row.push(default.value()),
            (value, _) => self.bounded(value)?,
        };
        match &self.rules.hiding {
            Hiding::Nothing => self.row.push(value),
            Hiding::Drop => self.row.push(Value::Null),
            Hiding::Hash(mac) => self.push_hash((**mac).clone(), value),
            Hiding::Truncate => self.push_network(value),
        }
    }
}

impl<C: ColumnWriter> Ruled<'_, C> {
    fn bounded<'v>(&self, value: Value<'v>) -> Result<Value<'v>, ValueError> {
        let Some(BytesMax { bytes: limit, overlong }) = self.rules.bytes_max else { return Ok(value) };
        let bytes = match value {
            Value::Text(text) | Value::Json(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        match (overlong, value) {
            _ if bytes <= limit => Ok(value),
            (Overlong::Truncate, Value::Text(text)) => {
                Ok(Value::Text(&text[..text.floor_char_boundary(limit)]))
            }
            (Overlong::Truncate, Value::Bytes(bytes)) => Ok(Value::Bytes(&bytes[..limit])),
            _ => Err(ValueError::TooLong { column: self.target.name.clone(), bytes, limit }),
        }
    }

    fn push_hash(&mut self, mut mac: Hmac<Sha256>, value: Value<'_>) -> Result<(), ValueError> {
        let Value::Text(text) = value else { return self.row.push(Value::Null) };
        mac.update(text.as_bytes());
        let mut digits = String::with_capacity(64);
        for byte in mac.finalize().into_bytes() {
            // Writing to a string cannot fail.
            let _ = write!(digits, "{byte:02x}");
        }
        self.row.push(Value::Text(&digits))
    }

    /// Writes the network of an address into the row. Text that is not an address becomes null, because it
    /// may contain anything.
    fn push_network(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        match value {
            Value::Inet(address) => self.row.push(Value::Inet(network(address))),
            Value::Text(text) => match text.parse() {
                Ok(address) => self.row.push(Value::Text(&network(address).to_string())),
                Err(_) => self.row.push(Value::Null),
            },
            _ => self.row.push(Value::Null),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::stream::HashKey;

    struct Shown(String);

    impl ColumnWriter for Shown {
        fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
            self.0 = format!("{value:?}");
            Ok(())
        }
    }

    fn check(rules: &ColumnRules, value: Value<'_>, expect: &str) {
        let (times, is_hidden) = (TimeRules::default(), false);
        let target = Target { name: "c".to_owned(), kind: ColumnType::Text, times, coerce: false, is_hidden };
        let rules = PreparedRules::new(rules).unwrap();
        let mut shown = Shown(String::new());
        let result = Ruled { target: &target, rules: &rules, row: &mut shown }.push(value);
        let found = result.map_or_else(|error| error.to_string(), |()| shown.0);
        assert_eq!(found, expect, "{value:?}");
    }

    fn redacting(redaction: Redaction) -> ColumnRules {
        ColumnRules { redaction: Some(redaction), ..ColumnRules::default() }
    }

    #[test]
    fn the_network_of_an_address_is_what_is_left() {
        for (address, expect) in [
            ("192.0.2.77", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
            ("::ffff:192.0.2.77", "192.0.2.0"),
        ] {
            let rules = redacting(Redaction::Truncate);
            check(&rules, Value::Inet(address.parse().unwrap()), &format!("Inet({expect})"));
            check(&rules, Value::Text(address), &format!("Text({expect:?})"));
        }
        check(&redacting(Redaction::Truncate), Value::Text("secret"), "Null");
        check(&redacting(Redaction::Drop), Value::Text("secret"), "Null");
    }

    #[test]
    fn a_hash_is_that_of_the_rfc() {
        // RFC 4231 section 4.3.
        let key = HashKey { variable: "KEY".to_owned(), secret: b"Jefe".to_vec() };
        let digest = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let rules = redacting(Redaction::Hash(key));
        check(&rules, Value::Text("what do ya want for nothing?"), &format!("Text({digest:?})"));
        check(&rules, Value::Null, "Null");
    }

    #[test]
    fn a_value_that_is_too_long_is_a_fault_or_cut_between_characters() {
        let bounded = |overlong| ColumnRules {
            bytes_max: Some(BytesMax { bytes: 3, overlong }),
            ..ColumnRules::default()
        };
        check(&bounded(Overlong::Reject), Value::Text("abc"), "Text(\"abc\")");
        let expect = "column \"c\" takes at most 3 bytes, found 4 bytes";
        check(&bounded(Overlong::Reject), Value::Text("abcd"), expect);
        check(&bounded(Overlong::Reject), Value::Json("[10]"), expect);
        check(&bounded(Overlong::Truncate), Value::Text("ab\u{fc}"), "Text(\"ab\")");
        check(&bounded(Overlong::Truncate), Value::Bytes(b"abcd"), "Bytes([97, 98, 99])");
    }

    #[test]
    fn a_value_that_is_not_there_is_null_a_default_or_a_fault() {
        let absent = |absent| ColumnRules { absent, ..ColumnRules::default() };
        let times = TimeRules::default();
        let default = crate::options::stream::DefaultValue::new(ColumnType::Text, &times, "\"x\"").unwrap();
        check(&absent(Absent::Default(default.clone())), Value::Null, "Text(\"x\")");
        check(&absent(Absent::Default(default)), Value::Text("y"), "Text(\"y\")");
        check(&absent(Absent::Reject), Value::Null, "column \"c\" is required, found nothing");
        assert!(PreparedRules::new(&ColumnRules::default()).is_none());
    }
}
