//! The keys of a fixed reply.

use tollgate_server::ChosenHandler;

use super::key::{OwnValue, keys};
use super::quoted::quoted;
use super::section::Section;

/// The media type of a reply that sets none.
const CONTENT_TYPE_DEFAULT: &str = "text/plain; charset=utf-8";

keys! {
    /// The table `reply`.
    pub(super) KEYS of ();
    /// The status of the reply.
    status [STATUS] = integer(200, 200..=599);
    /// The media type of `body`.
    content_type [CONTENT_TYPE] = text(CONTENT_TYPE_DEFAULT, "a media type");
    /// The content of the reply.
    body [BODY] = text("", "a text, empty with 204, 205 and 304").hidden();
}

/// Takes the keys of a fixed reply.
pub(super) fn fixed_reply(section: &mut Section<'_>) -> ChosenHandler {
    let status = u16::try_from(section.number_or_default(&STATUS)).unwrap_or_default();
    let content_type = section.text(CONTENT_TYPE.name);
    if let Some(written) = &content_type
        && !(written.value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && written.value.contains('/'))
    {
        let text =
            format!("content_type is {:?}, allowed is a media type like \"text/plain\"", written.value);
        section.fault_at(&written.span, text);
    }
    let body = section.text(BODY.name);
    if let Some(body) = &body
        && matches!(status, 204 | 205 | 304)
        && !body.value.is_empty()
    {
        let text =
            format!("body has {} bytes, allowed is none: a reply {status} has no content", body.value.len());
        section.fault_at(&body.span, text);
    }
    let content_type =
        content_type.map_or_else(|| CONTENT_TYPE.default_text().to_owned(), |written| written.value);
    ChosenHandler::Reply {
        status,
        content_type,
        body: body.map(|body| body.value).unwrap_or_default().into(),
    }
}

/// Shows the values of the keys.
pub(super) fn show(status: u16, content_type: &str, body: &[u8]) -> [OwnValue; 3] {
    [
        (STATUS.name, Some(status.to_string())),
        (CONTENT_TYPE.name, Some(quoted(content_type))),
        (BODY.name, Some(quoted(&String::from_utf8_lossy(body)))),
    ]
}
