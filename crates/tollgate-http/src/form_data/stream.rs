//! Forms whose bytes arrive in pieces. The parser is as strict as [`FormParts`](super::FormParts).
//!
//! The parser holds only the head of a part and the bytes that are not yet consumed.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem::{self, Finder};

use super::{FormError, PART_HEAD_BYTES_MAX, boundary, field, lines, part};

/// Next event of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormEvent {
    /// A part begins.
    Part(FormPartHead),
    /// The next bytes of the content of the part.
    Content(Bytes),
    /// The content of the part is complete.
    PartEnd,
    /// The form ends with the last boundary. No more parts follow.
    End,
}

/// Head of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPartHead {
    /// Name of the form field.
    pub name: Vec<u8>,
    /// Name of the file on the client, if the part is a file. Never use it as the name of a file on this
    /// server.
    pub filename: Option<Vec<u8>>,
    /// Content type that the client states.
    pub content_type: Option<Vec<u8>>,
    /// Names and values of all header fields of the part, in their order.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Parser for a form that arrives in pieces.
#[derive(Debug)]
pub struct FormStream {
    delimiter: Finder<'static>,
    /// Bytes that arrived and are not yet consumed.
    buffer: BytesMut,
    /// Bytes of the form before the buffer.
    passed: usize,
    state: State,
    is_whole: bool,
}

/// Position of the start of the buffer in the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The buffer begins at the first byte of the form.
    Start,
    Preamble,
    /// The buffer begins after a delimiter.
    Line,
    /// The buffer begins at the line end before the head of a part.
    Head,
    /// The buffer begins at the empty line after the head of a part. If the part is empty, the line end also
    /// begins the delimiter.
    Blank,
    Content,
    Over,
}

impl FormStream {
    /// Creates a parser for a form. The parameter `boundary` of `content_type` is used.
    ///
    /// # Errors
    /// `Boundary` if the content type has no valid boundary.
    pub fn new(content_type: &[u8]) -> Result<Self, FormError> {
        let boundary = boundary(content_type).ok_or(FormError::Boundary)?;
        let delimiter = Finder::new(&[b"\r\n--", &boundary[..]].concat()).into_owned();
        Ok(Self { delimiter, buffer: BytesMut::new(), passed: 0, state: State::Start, is_whole: false })
    }

    /// Appends the next bytes of the form.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.state != State::Over {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Records that no more bytes follow.
    pub fn finish(&mut self) {
        self.is_whole = true;
    }

    /// Returns the next event, or `None` if the parser needs more bytes.
    ///
    /// # Errors
    /// `Start`, `Delimiter`, `End`, `PartHead` or `Part`. Do not use the parser again after an error.
    pub fn next_event(&mut self) -> Result<Option<FormEvent>, FormError> {
        loop {
            let event = match self.state {
                State::Start => self.start(),
                State::Preamble => self.preamble()?,
                State::Line => self.line()?,
                State::Head => self.head()?,
                State::Blank => self.blank()?,
                State::Content => self.content()?,
                State::Over => Step::Event(FormEvent::End),
            };
            match event {
                Step::Event(event) => return Ok(Some(event)),
                Step::Hungry => return Ok(None),
                Step::Again => {}
            }
        }
    }

    fn start(&mut self) -> Step {
        let opening = &self.delimiter.needle()[2..];
        if self.buffer.len() < opening.len() && !self.is_whole {
            return Step::Hungry;
        }
        let opens = self.buffer.starts_with(opening);
        let bytes = if opens { opening.len() } else { 0 };
        self.go_to(if opens { State::Line } else { State::Preamble }, bytes)
    }

    fn preamble(&mut self) -> Result<Step, FormError> {
        match self.delimiter.find(&self.buffer) {
            Some(at) => Ok(self.go_to(State::Line, at + self.delimiter.needle().len())),
            None if self.is_whole => Err(FormError::Start),
            None => {
                self.take(self.settled_bytes());
                Ok(Step::Hungry)
            }
        }
    }

    fn line(&mut self) -> Result<Step, FormError> {
        let error = FormError::Delimiter { at: self.passed + 1 };
        if let [b'-', b'-', behind @ ..] = &self.buffer[..] {
            return match behind {
                [] if !self.is_whole => Ok(Step::Hungry),
                [] | [b' ' | b'\t' | b'\r' | b'\n', ..] => Ok(self.go_to(State::Over, self.buffer.len())),
                _ => Err(error),
            };
        }
        let blanks = self.buffer.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        match &self.buffer[blanks..] {
            [b'\r', b'\n', ..] => Ok(self.go_to(State::Head, blanks)),
            [] | [b'\r'] if !self.is_whole && blanks <= PART_HEAD_BYTES_MAX => Ok(Step::Hungry),
            [b'-'] if !self.is_whole && blanks == 0 => Ok(Step::Hungry),
            [] | [b'-' | b'\r'] if self.is_whole => Err(FormError::End),
            _ => Err(error),
        }
    }

    fn head(&mut self) -> Result<Step, FormError> {
        let at = self.passed + 3;
        let within = &self.buffer[..self.buffer.len().min(PART_HEAD_BYTES_MAX + 6)];
        let Some(end) = memmem::find(within, b"\r\n\r\n") else {
            return match within.len() < self.buffer.len() || within.len() == PART_HEAD_BYTES_MAX + 6 {
                true => Err(FormError::PartHead { at }),
                false if self.is_whole => Err(FormError::End),
                false => Ok(Step::Hungry),
            };
        };
        let text = within.get(2..end).unwrap_or_default();
        let head = head(text).map_err(|problem| FormError::Part { at, problem })?;
        self.go_to(State::Blank, end + 2);
        Ok(Step::Event(FormEvent::Part(head)))
    }

    fn blank(&mut self) -> Result<Step, FormError> {
        let delimiter = self.delimiter.needle();
        if self.buffer.starts_with(delimiter) {
            return Ok(self.part_end());
        }
        if delimiter.starts_with(&self.buffer) {
            return if self.is_whole { Err(FormError::End) } else { Ok(Step::Hungry) };
        }
        Ok(self.go_to(State::Content, 2))
    }

    fn content(&mut self) -> Result<Step, FormError> {
        let bytes = match self.delimiter.find(&self.buffer) {
            Some(0) => return Ok(self.part_end()),
            Some(at) => at,
            None if self.is_whole => return Err(FormError::End),
            None => self.settled_bytes(),
        };
        Ok(match bytes {
            0 => Step::Hungry,
            _ => {
                self.passed += bytes;
                Step::Event(FormEvent::Content(self.buffer.split_to(bytes).freeze()))
            }
        })
    }

    fn part_end(&mut self) -> Step {
        self.go_to(State::Line, self.delimiter.needle().len());
        Step::Event(FormEvent::PartEnd)
    }

    /// Returns the number of bytes at the front of the buffer that cannot be part of a delimiter, whatever
    /// bytes follow.
    fn settled_bytes(&self) -> usize {
        (self.buffer.len() + 1).saturating_sub(self.delimiter.needle().len())
    }

    fn go_to(&mut self, state: State, bytes: usize) -> Step {
        self.take(bytes);
        self.state = state;
        Step::Again
    }

    fn take(&mut self, bytes: usize) {
        self.buffer.advance(bytes);
        self.passed += bytes;
    }
}

enum Step {
    Event(FormEvent),
    /// The parser needs more bytes.
    Hungry,
    Again,
}

fn head(text: &[u8]) -> Result<FormPartHead, &'static str> {
    let part = part(text, b"")?;
    let fields = lines(text).map(|line| field(line).map(|(name, value)| (name.to_vec(), value.to_vec())));
    Ok(FormPartHead {
        name: part.name.into_owned(),
        filename: part.filename.map(std::borrow::Cow::into_owned),
        content_type: part.content_type.map(<[u8]>::to_vec),
        fields: fields.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::FormParts;
    use super::*;

    type WholePart = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>);

    const TYPE: &[u8] = b"multipart/form-data; boundary=b";

    fn whole(body: &[u8]) -> Result<Vec<WholePart>, FormError> {
        let own = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
        FormParts::new(TYPE, body)?
            .map(|part| {
                let part = part?;
                let filename = own(part.filename.as_deref());
                Ok((part.name.to_vec(), filename, own(part.content_type), part.content.to_vec()))
            })
            .collect()
    }

    fn streamed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<WholePart>, FormError> {
        let mut stream = FormStream::new(TYPE)?;
        let (mut parts, mut pieces) = (Vec::<WholePart>::new(), pieces);
        loop {
            match stream.next_event()? {
                None => match pieces.next() {
                    Some(piece) => stream.push(piece),
                    None => stream.finish(),
                },
                Some(FormEvent::Part(head)) => {
                    parts.push((head.name, head.filename, head.content_type, Vec::new()));
                }
                Some(FormEvent::Content(bytes)) => parts.last_mut().unwrap().3.extend_from_slice(&bytes),
                Some(FormEvent::PartEnd) => {}
                Some(FormEvent::End) => return Ok(parts),
            }
        }
    }

    fn check(body: &[u8]) {
        let expect = whole(body);
        for width in 1..=body.len().max(1) {
            let found = streamed(body.chunks(width));
            let shown = body.escape_ascii();
            match &expect {
                Ok(expect) => assert_eq!(found.as_ref(), Ok(expect), "{width}: {shown}"),
                Err(_) => assert!(found.is_err(), "{width}: {shown}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_form_that_comes_in_pieces_is_the_form_that_comes_whole() {
        const HEAD: &str = "Content-Disposition: form-data; name=\"a\"";
        for body in [
            String::new(),
            "--b".to_owned(),
            "--b--".to_owned(),
            "--b--x".to_owned(),
            "preamble\r\n--b--\r\nepilogue".to_owned(),
            format!("--b\r\n{HEAD}\r\n\r\nhello\r\n--b--\r\n"),
            format!("--b \t\r\n{HEAD}; filename=\"f\"\r\nContent-Type: text/x\r\n\r\n\r\n--b--"),
            format!("--b\r\n{HEAD}\r\n\r\n--b--"),
            format!("--b\r\n{HEAD}\r\n\r\n-\r\n--\r\n--c\r\n\r\n--b\r\n{HEAD}\r\n\r\nx\r\n--b--"),
            format!("--b\r\n{HEAD}\r\n\r\nhello\r\n--b"),
            format!("--b\r\n{HEAD}\r\n\r\nhello\r\n--bx--"),
            format!("--b\r\n{HEAD}\r\n\r\nhello"),
            format!("--b\r\n{HEAD}"),
            "--b\r\nno colon\r\n\r\nhello\r\n--b--".to_owned(),
            format!("--b\r\n{}\r\n\r\nhello\r\n--b--", "x: y\r\n".repeat(3000)),
        ] {
            if body.len() < 4096 {
                check(body.as_bytes());
            } else {
                assert!(streamed(body.as_bytes().chunks(100)).is_err() && whole(body.as_bytes()).is_err());
            }
        }
    }

    #[test]
    fn the_held_bytes_do_not_grow_with_the_content() {
        let mut stream = FormStream::new(TYPE).unwrap();
        stream.push(b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n");
        let mut held = 0;
        for _ in 0..1000 {
            stream.push(&[b'\r'; 1000]);
            while stream.next_event().unwrap().is_some() {}
            held = held.max(stream.buffer.len());
        }
        assert!(held < 10, "{held}");
    }

    proptest! {
        #[test]
        fn pieces_of_anything_are_read_as_the_whole(
            words in proptest::collection::vec(
                prop::sample::select(vec![
                    "--b", "\r\n--b", "--", "\r\n", "\r", "\n", " ", "x", "-", "--b--", "\r\n\r\n",
                    "Content-Disposition: form-data; name=a", "Content-Disposition: form-data; name=a\r\n\r\n",
                    "; filename=f", "Content-Type: t",
                ]),
                0..24,
            ),
        ) {
            check(words.concat().as_bytes());
        }
    }
}
