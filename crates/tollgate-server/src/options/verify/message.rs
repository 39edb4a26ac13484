//! The template of a signed message: text with values of the request in braces.

/// The template of a signed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTemplate {
    text: String,
    parts: Vec<MessagePart>,
}

/// A part of a signed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessagePart {
    /// A fixed text.
    Text(String),
    /// `{body}`: the bytes of the content as sent, before its content coding is removed.
    Body,
    /// `{form}`: name and value of each field of a form, sorted by name. Other content is not a part of the
    /// message: then the query must have its digest as `bodySHA256`.
    Form,
    /// `{timestamp}`: the time of the signature, as sent.
    Timestamp,
    /// `{method}`: the method.
    Method,
    /// `{url}`: the public URL, with the target as sent.
    Url,
    /// `{header.NAME}`: a header field, as sent.
    Header(String),
}

impl MessageTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// The text has an unknown name, or does not contain the content exactly once.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, from)) = rest.split_once('{') {
            let (name, after) = from.split_once('}').ok_or("it has \"{\" without \"}\"")?;
            if !before.is_empty() {
                parts.push(MessagePart::Text(before.to_owned()));
            }
            parts.push(MessagePart::of(name).ok_or_else(|| format!("it has the unknown name {{{name}}}"))?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(MessagePart::Text(rest.to_owned()));
        }
        match parts.iter().filter(|part| part.is_content()).count() {
            1 => Ok(Self { text: text.to_owned(), parts }),
            _ => Err("the content must be in it once, as {body} or {form}".to_owned()),
        }
    }

    /// Returns the template as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether a part is in the message.
    pub fn has(&self, part: &MessagePart) -> bool {
        self.parts.contains(part)
    }

    /// Returns the parts before the content, the content, and the parts after it.
    pub(crate) fn around_content(&self) -> (&[MessagePart], &MessagePart, &[MessagePart]) {
        let at = self.parts.iter().position(MessagePart::is_content).unwrap_or_default();
        let (before, rest) = self.parts.split_at(at);
        match rest {
            [content, after @ ..] => (before, content, after),
            [] => (before, &MessagePart::Body, &[]),
        }
    }
}

impl MessagePart {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "body" => Self::Body,
            "form" => Self::Form,
            "timestamp" => Self::Timestamp,
            "method" => Self::Method,
            "url" => Self::Url,
            _ => Self::Header(name.strip_prefix("header.")?.to_ascii_lowercase()),
        })
    }

    fn is_content(&self) -> bool {
        matches!(self, Self::Body | Self::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_text_with_names_in_braces() {
        use MessagePart::{Body, Form, Header, Method, Text, Timestamp, Url};
        let check = |text: &str, expected: &[MessagePart]| {
            let template = MessageTemplate::parse(text).unwrap();
            assert_eq!((template.text(), template.parts.as_slice()), (text, expected));
        };
        check("{body}", &[Body]);
        check("v0:{timestamp}:{body}", &[Text("v0:".into()), Timestamp, Text(":".into()), Body]);
        check("{url}{form}", &[Url, Form]);
        check(
            "{method} {header.X-Id}\n{body}.",
            &[Method, Text(" ".into()), Header("x-id".into()), Text("\n".into()), Body, Text(".".into())],
        );
    }

    #[test]
    fn a_template_without_the_content_or_with_an_unknown_name_is_refused() {
        let check = |text: &str, expected: &str| {
            let problem = MessageTemplate::parse(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        };
        check("", "the content must be in it once");
        check("{timestamp}", "the content must be in it once");
        check("{body}{body}", "the content must be in it once");
        check("{body}{form}", "the content must be in it once");
        check("{time}.{body}", "the unknown name {time}");
        check("{body", "without \"}\"");
    }
}
