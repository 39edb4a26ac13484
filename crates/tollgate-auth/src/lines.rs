//! The lines of a password file or a token file: `NAME:SECRET`, blank lines and comments.

/// A fault in one line of a file. The text never contains a part of the line that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct LineFault {
    /// Number of the line, counted from 1.
    pub line: usize,
    /// The fault, and what to do.
    pub text: String,
}

/// One line of a file.
pub(crate) struct NamedLine<'a> {
    pub(crate) line: usize,
    pub(crate) name: &'a str,
    pub(crate) rest: &'a str,
}

impl NamedLine<'_> {
    pub(crate) fn fault(&self, text: impl Into<String>) -> LineFault {
        LineFault { line: self.line, text: text.into() }
    }
}

/// Lists the lines with a name. Blank lines and lines that begin with `#` are left out.
///
/// # Errors
/// A line has no `:`, or its name is not allowed.
pub(crate) fn named_lines(text: &str) -> impl Iterator<Item = Result<NamedLine<'_>, LineFault>> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(line, text)| {
        let Some((name, rest)) = text.split_once(':') else {
            let text = "the line has no \":\", allowed is NAME:HASH".to_owned();
            return Err(LineFault { line, text });
        };
        let named = NamedLine { line, name, rest };
        if crate::identity::is_name(name) {
            Ok(named)
        } else {
            Err(named.fault("the name is empty, too long, or has a control character or a blank at its ends"))
        }
    })
}
