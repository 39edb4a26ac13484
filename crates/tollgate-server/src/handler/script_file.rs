//! Files that scripts send. [`Files`](tollgate_files::Files) finds and opens these files. The script may add
//! fields to the reply.

use std::borrow::Cow;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tollgate_files::{NamedFile, NamedFileError, PendingRead};
use tollgate_http::StatusCode;
use tollgate_script::{CallError, HeaderLine, Outcome, ReplyFile};

use super::exchange::Exchange;
use crate::reply::Reply;

/// State of a reply with a file that a script sends.
#[derive(Default)]
pub(super) struct ScriptFileReply(Option<Box<PendingRead>>);

impl ScriptFileReply {
    /// Returns the pending read that the reply waits for, if any.
    pub(super) fn pending_read(&self) -> Option<&PendingRead> {
        self.0.as_deref()
    }

    /// Creates the reply for an outcome with a file. Returns pending while a thread reads missing data.
    /// Without a context no thread is started.
    ///
    /// # Errors
    /// The script is at fault: the route has no folder of files, or the slice begins after the end of the
    /// file.
    pub(super) fn poll(
        &mut self,
        outcome: &Outcome,
        exchange: &Exchange,
        context: Option<&mut Context<'_>>,
    ) -> Poll<Result<Reply, CallError>> {
        let (Some(files), Some(sent)) = (exchange.endpoint.sent_files.as_deref(), &outcome.file) else {
            let text = "reply.file: the route has no folder of files: set file_dir";
            return Poll::Ready(Err(CallError::Reply(text.to_owned())));
        };
        let named = NamedFile {
            path: &sent.path,
            content_type: sent.content_type.as_deref(),
            offset: sent.offset,
            length: sent.length,
            status: StatusCode::new(outcome.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let reply = ready!(files.poll_named(&named, &exchange.file_request(), &mut self.0, context));
        Poll::Ready(match reply {
            Ok(reply) => {
                let mut reply = Reply::from(reply);
                reply.overwrite(&fields(sent, outcome, reply.status));
                Ok(reply)
            }
            Err(NamedFileError::NotOpened(reply)) => Ok((*reply).into()),
            Err(NamedFileError::BeyondEnd { file_bytes }) => {
                let ReplyFile { path, offset, .. } = &**sent;
                let text = format!(
                    "reply.file.offset exceeds file {path:?}: {offset} bytes, the file has {file_bytes} bytes"
                );
                Err(CallError::Reply(text))
            }
        })
    }
}

/// Returns the fields that the script adds. Fields about the content are left out if the reply has no content
/// or other content (RFC 9110 section 15.4.5).
fn fields(sent: &ReplyFile, outcome: &Outcome, status: StatusCode) -> Vec<HeaderLine> {
    let is_refusal = status.as_u16() != outcome.status && status != StatusCode::PARTIAL_CONTENT;
    let is_about_content = |name: &str| name.len() > 8 && name[..8].eq_ignore_ascii_case("content-");
    let told = outcome.headers.iter().filter(|(name, _)| !(is_refusal && is_about_content(name)));
    let mut fields: Vec<_> = told.cloned().collect();
    if let Some(name) = sent.download_name.as_ref().filter(|_| !is_refusal) {
        fields.push((Cow::Borrowed("Content-Disposition"), disposition(name)));
    }
    fields
}

/// Formats `Content-Disposition` (RFC 6266): the name in ASCII and, if the full name differs, the full name
/// in the form of RFC 8187.
fn disposition(name: &str) -> Bytes {
    let plain: String = name
        .chars()
        .map(|c| match c {
            '"' | '\\' | '/' | '%' => '_',
            c if c.is_ascii() => c,
            _ => '_',
        })
        .collect();
    let mut value = format!("attachment; filename=\"{plain}\"");
    if plain != name {
        value.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
                value.push(char::from(byte));
            } else {
                value.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_to_save_under_is_told_in_both_forms() {
        let check = |name, expect: &str| assert_eq!(disposition(name), expect, "{name}");
        check("report.pdf", "attachment; filename=\"report.pdf\"");
        check("a \"b\".txt", "attachment; filename=\"a _b_.txt\"; filename*=UTF-8''a%20%22b%22.txt");
        check("Grüße.txt", "attachment; filename=\"Gr__e.txt\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt");
    }
}
