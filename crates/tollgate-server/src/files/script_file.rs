//! Files that scripts send: found, opened and told of as those of a route are, but by the name that the
//! script gave.
//!
//! The status of the script counts. With 200 the conditions and ranges of GET and HEAD are those of files;
//! any other status, and any other method, has the whole. No coding is chosen: what a script names is what is
//! sent.

use std::borrow::Cow;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use tollgate_http::{Method, StatusCode};
use tollgate_script::{CallError, HeaderLine, Outcome, ReplyFile, Request};

use super::lookup_context::LookupContext;
use super::opened::OpenError;
use super::path_lookup::Found;
use super::pending_read::{PendingRead, ReadOutcome, ReadWait};
use super::resource::Resource;
use super::{Files, selected};
use crate::reply::Reply;

/// A file that a script sends, on its way into a reply.
#[derive(Default)]
pub(crate) struct ScriptFileReply(Option<Box<PendingRead>>);

impl ScriptFileReply {
    /// What it waits for, if it does.
    pub(crate) fn pending_read(&self) -> Option<&PendingRead> {
        self.0.as_deref()
    }

    /// Makes the reply of an outcome with a file. Pending: a thread looks for what is missing, or has to be
    /// asked to by another call, where there is no context.
    ///
    /// # Errors
    /// The script is at fault: the route names no folder, or the slice begins behind the end of the file.
    pub(crate) fn poll(
        &mut self,
        files: Option<&Files>,
        outcome: &Outcome,
        request: &Request,
        begun: Instant,
        mut context: Option<&mut Context<'_>>,
    ) -> Poll<Result<Reply, CallError>> {
        let (Some(files), Some(sent)) = (files, &outcome.file) else {
            let text = "reply.file: the route has no folder of files, name one by file_dir";
            return Poll::Ready(Err(CallError::Reply(text.to_owned())));
        };
        loop {
            if let Some(pending_read) = &mut self.0 {
                let Some(context) = context.as_deref_mut() else { return Poll::Pending };
                if let Some(ReadOutcome::Reply(mut reply)) = ready!(pending_read.poll(context)) {
                    reply.overwrite(&fields(sent, outcome, reply.status));
                    return Poll::Ready(Ok(*reply));
                }
            }
            match files.send(sent, outcome, request, begun, self.0.as_deref()) {
                Ok(reply) => return Poll::Ready(reply),
                Err(wait) => self.0.get_or_insert_default().begin(wait),
            }
        }
    }
}

impl Files {
    /// # Errors
    /// What to wait for first.
    fn send(
        &self,
        sent: &ReplyFile,
        outcome: &Outcome,
        request: &Request,
        begun: Instant,
        pending_read: Option<&PendingRead>,
    ) -> Result<Result<Reply, CallError>, ReadWait> {
        let look = LookupContext::of(request, begun, pending_read);
        let found = match self.find(&sent.path, look) {
            Ok(Found::Resource(resource)) => Ok(resource),
            Ok(Found::Folder | Found::Listing) => Err(OpenError::Absent),
            Err(OpenError::Cold(path)) => return Err(self.look_for(path, look)),
            Err(error) => Err(error),
        };
        match found {
            Ok(resource) => self.send_found(&resource, sent, outcome, request, look, pending_read),
            Err(error) => {
                if let OpenError::Absent = error {
                    tracing::debug!(id = %request.id, file = sent.path, "a script sends a file that is not there");
                }
                Ok(Ok(self.refused(&error, request)))
            }
        }
    }

    fn send_found(
        &self,
        resource: &Resource,
        sent: &ReplyFile,
        outcome: &Outcome,
        request: &Request,
        look: LookupContext<'_>,
        pending_read: Option<&PendingRead>,
    ) -> Result<Result<Reply, CallError>, ReadWait> {
        let plain = resource.plain();
        let len = plain.len();
        if sent.offset > len {
            let ReplyFile { path, offset, .. } = sent;
            let text = format!("reply.file.offset exceeds file {path:?}: {offset} bytes, file {len} bytes");
            return Ok(Err(CallError::Reply(text)));
        }
        let end = sent.length.map_or(len, |length| len.min(sent.offset.saturating_add(length)));
        let one = match (sent.is_slice(), &sent.content_type) {
            (false, None) => plain.clone(),
            (_, content_type) => plain.derived(&(sent.offset..end), content_type.as_deref()).into(),
        };
        let untagged;
        let heads = match one.heads() {
            Some(heads) => heads,
            None => {
                untagged = one.untagged();
                &untagged
            }
        };
        let head = &request.head;
        let mut reply = match head.method() {
            Method::Get | Method::Head if outcome.status == StatusCode::OK.as_u16() => {
                let reply = selected::reply(&one, heads, head, look.wall_s());
                if sent.is_slice() || !matches!(reply.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
                    reply
                } else {
                    self.with_digests(reply, &one, head, pending_read)?
                }
            }
            _ => {
                let status = StatusCode::new(outcome.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Reply { lines: heads.lines.clone(), ..selected::whole(&one, status) }
            }
        };
        reply.overwrite(&fields(sent, outcome, reply.status));
        Ok(Ok(reply))
    }
}

/// What the script says beside the file, as far as the reply has the content that it is about (RFC 9110
/// section 15.4.5).
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

/// RFC 6266: the name as far as it is ASCII, and, if it is not, the whole of it by RFC 8187.
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
