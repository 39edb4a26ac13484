//! Dictionaries of structured fields whose members are integers (RFC 9651 section 3.2).
//!
//! A member of any other type must be well-formed, and is skipped. A malformed dictionary counts as absent.

/// Lists the members of a dictionary, each with its value if the value is an integer. A repeated key appears
/// several times in the list.
///
/// `None` means that the dictionary is malformed, so all its members count as absent.
pub(crate) fn integers(text: &[u8]) -> Option<Vec<(&[u8], Option<i64>)>> {
    let mut rest = Rest(text);
    let mut members = Vec::new();
    rest.skip(b" ");
    while !rest.0.is_empty() {
        let key = rest.key()?;
        let value = if rest.take(b'=') { rest.member()? } else { None };
        rest.parameters()?;
        members.push((key, value));
        rest.skip(b" \t");
        if rest.0.is_empty() {
            break;
        }
        if !rest.take(b',') {
            return None;
        }
        rest.skip(b" \t");
        // A comma must be followed by another member.
        rest.0.first()?;
    }
    Some(members)
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn skip(&mut self, blanks: &[u8]) {
        self.run(|byte| blanks.contains(&byte));
    }

    fn take(&mut self, wanted: u8) -> bool {
        match self.0 {
            [first, rest @ ..] if *first == wanted => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// Consumes bytes as long as `is_one` accepts them.
    fn run(&mut self, is_one: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !is_one(byte)).unwrap_or(self.0.len());
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        run
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let is_key = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
        };
        let key = self.run(is_key);
        key.first().filter(|&&first| first.is_ascii_lowercase() || first == b'*').map(|_| key)
    }

    /// Consumes an item or an inner list, and returns the value if it is an integer.
    fn member(&mut self) -> Option<Option<i64>> {
        if !self.take(b'(') {
            return self.item();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(None);
            }
            self.item()?;
            self.parameters()?;
            if !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn item(&mut self) -> Option<Option<i64>> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b':' => self.bytes(),
            b'?' => {
                self.take(b'?');
                (self.take(b'0') || self.take(b'1')).then_some(None)
            }
            b'@' => {
                self.take(b'@');
                self.number()?.map(|_| None)
            }
            b'%' => {
                self.take(b'%');
                self.display_string()
            }
            first if first.is_ascii_alphabetic() || first == b'*' => {
                let is_token =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
                self.run(is_token);
                Some(None)
            }
            _ => None,
        }
    }

    /// Consumes at most 15 digits, or at most 12 digits, a dot and 1 to 3 digits.
    fn number(&mut self) -> Option<Option<i64>> {
        let is_negative = self.take(b'-');
        let digits = self.run(|byte| byte.is_ascii_digit());
        if self.take(b'.') {
            let behind = self.run(|byte| byte.is_ascii_digit());
            return ((1..=12).contains(&digits.len()) && (1..=3).contains(&behind.len())).then_some(None);
        }
        if !(1..=15).contains(&digits.len()) {
            return None;
        }
        let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        Some(Some(if is_negative { -value } else { value }))
    }

    fn string(&mut self) -> Option<Option<i64>> {
        if !self.take(b'"') {
            return None;
        }
        loop {
            self.run(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'));
            if self.take(b'"') {
                return Some(None);
            }
            if !self.take(b'\\') || !(self.take(b'"') || self.take(b'\\')) {
                return None;
            }
        }
    }

    /// Consumes a display string, which is UTF-8 (RFC 9651 section 4.2.10).
    ///
    /// `"`, `%` and each byte that is not printable ASCII are written as `%` and two digits.
    fn display_string(&mut self) -> Option<Option<i64>> {
        if !self.take(b'"') {
            return None;
        }
        let mut text = Vec::new();
        loop {
            text.extend_from_slice(
                self.run(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'%')),
            );
            if self.take(b'"') {
                return str::from_utf8(&text).ok().map(|_| None);
            }
            if !self.take(b'%') {
                return None;
            }
            let (digits, rest) = self.0.split_at_checked(2)?;
            let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
            let value = digit(digits[0])? * 16 + digit(digits[1])?;
            text.push(value.try_into().ok()?);
            self.0 = rest;
        }
    }

    fn bytes(&mut self) -> Option<Option<i64>> {
        self.take(b':');
        self.run(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.take(b':').then_some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_a_dictionary_and_what_is_none() {
        let check = |text: &str, expected: Option<&[(&str, Option<i64>)]>| {
            let found = integers(text.as_bytes());
            let expected = expected.map(|members| {
                members.iter().map(|(key, value)| (key.as_bytes(), *value)).collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text}");
        };
        check("", Some(&[]));
        check("sha-256=10, sha-512=3", Some(&[("sha-256", Some(10)), ("sha-512", Some(3))]));
        check("  a=1\t,\tb=-2  ", Some(&[("a", Some(1)), ("b", Some(-2))]));
        check("a=1,a=2", Some(&[("a", Some(1)), ("a", Some(2))]));
        check(
            "a, b=?0, c=1.5, d=\"x\\\"y,\", e=tok/en:x, f=:YQ==:, g=@12, h=%\"\\%c3%bc%25\", *i=3",
            Some(&[
                ("a", None),
                ("b", None),
                ("c", None),
                ("d", None),
                ("e", None),
                ("f", None),
                ("g", None),
                ("h", None),
                ("*i", Some(3)),
            ]),
        );
        check("a=5;q=1;x=\"y\"; z, b=(1 2;x \"3\" ( ), c=1", None);
        check(
            "a=5;q=1;x=\"y\"; z, b=(1  2;x \"3\" ), c=1",
            Some(&[("a", Some(5)), ("b", None), ("c", Some(1))]),
        );
        check("a=999999999999999", Some(&[("a", Some(999_999_999_999_999))]));
        for wrong in [
            "a=1,",
            ",a=1",
            "a=1 b=2",
            "A=1",
            "a=",
            "a =1",
            "a= 1",
            "1=a",
            "a=1000000000000000",
            "a=1.",
            "a=.5",
            "a=1.2345",
            "a=-",
            "a=\"x",
            "a=\"\\x\"",
            "a=:x",
            "a=(1",
            "a=(1\"x\")",
            "a=?2",
            "a=1;",
            "a=1;=",
            "a=@x",
            "a=%x",
            "a=%\"%c3\"",
            "a=%\"%C3%BC\"",
            "a=%\"%zz\"",
            "a=%\"%2\"",
            "a=%\"x",
            "a={}",
            "a=1,,b=2",
            "\ta=1",
        ] {
            check(wrong, None);
        }
    }
}
