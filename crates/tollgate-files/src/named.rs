//! Files that a script names, instead of the path of a request. Named files are found and opened like the
//! files of a route.
//!
//! The caller sets the status. With 200, conditions and ranges of GET and HEAD apply as for the files of a
//! route. With any other status or method, the whole content is sent. No content coding is negotiated,
//! because the script named one file.

use std::task::{Context, Poll, ready};

use tollgate_http::{Method, StatusCode};

use crate::files::Files;
use crate::lookup_context::LookupContext;
use crate::opened::OpenError;
use crate::path_lookup::Found;
use crate::pending_read::{PendingRead, ReadOutcome, ReadWait};
use crate::reply::FileReply;
use crate::request::FileRequest;
use crate::resource::Resource;
use crate::selected;

/// A file by its name, and the part of it that is the content of a reply.
#[derive(Debug, Clone, Copy)]
pub struct NamedFile<'a> {
    /// Path below the folder. A leading slash is ignored. An empty path names the folder, so no file is
    /// found.
    pub path: &'a str,
    /// Media type. `None` derives it from the name.
    pub content_type: Option<&'a str>,
    /// Offset of the content in the file, in bytes.
    pub offset: u64,
    /// Length of the content in bytes, at most up to the end of the file. `None` means up to that end.
    pub length: Option<u64>,
    /// The status of the reply.
    pub status: StatusCode,
}

/// Reason why a reply does not have the named file.
#[derive(Debug)]
pub enum NamedFileError {
    /// The content begins after the end of the file.
    BeyondEnd {
        /// The length of the file in bytes.
        file_bytes: u64,
    },
    /// The file was not opened. The reply has status 403, 404, 500 or 503.
    NotOpened(Box<FileReply>),
}

impl NamedFile<'_> {
    /// Returns whether the caller asked for a part of the file.
    fn is_slice(&self) -> bool {
        self.offset > 0 || self.length.is_some()
    }
}

impl Files {
    /// Returns the reply with a named file. The result is pending in the same cases as
    /// [`poll_answer`](Self::poll_answer).
    ///
    /// # Errors
    /// `BeyondEnd` if the requested part does not exist. `NotOpened` if the file cannot be sent.
    ///
    /// # Cancel safety
    /// Dropping `pending_read` has the same effect as for [`poll_answer`](Self::poll_answer).
    pub fn poll_named(
        &self,
        named: &NamedFile<'_>,
        request: &FileRequest<'_>,
        pending_read: &mut Option<Box<PendingRead>>,
        mut context: Option<&mut Context<'_>>,
    ) -> Poll<Result<FileReply, NamedFileError>> {
        loop {
            if let Some(pending_read) = pending_read {
                let Some(context) = context.as_deref_mut() else { return Poll::Pending };
                if let Some(ReadOutcome::Reply(reply)) = ready!(pending_read.poll(context)) {
                    return Poll::Ready(Ok(*reply));
                }
            }
            match self.send(named, request, pending_read.as_deref()) {
                Ok(reply) => return Poll::Ready(reply),
                Err(wait) => pending_read.get_or_insert_default().begin(wait),
            }
        }
    }

    /// Returns the reply with a named file.
    ///
    /// # Errors
    /// The work of a thread that the request must wait for. The caller repeats the call after that work.
    fn send(
        &self,
        named: &NamedFile<'_>,
        request: &FileRequest<'_>,
        pending_read: Option<&PendingRead>,
    ) -> Result<Result<FileReply, NamedFileError>, ReadWait> {
        let look = LookupContext::of(request, pending_read);
        let found = match self.find(named.path, look) {
            Ok(Found::Resource(resource)) => Ok(resource),
            Ok(Found::Folder | Found::Listing) => Err(OpenError::Absent),
            Err(OpenError::Cold(path)) => return Err(self.look_for(path, look)),
            Err(error) => Err(error),
        };
        match found {
            Ok(resource) => self.send_found(&resource, named, request, look, pending_read),
            Err(error) => {
                if let OpenError::Absent = error {
                    let (id, file) = (request.id, named.path);
                    tracing::debug!(%id, file, "the file of a script's reply does not exist");
                }
                Ok(Err(NamedFileError::NotOpened(self.refused(&error, request).into())))
            }
        }
    }

    fn send_found(
        &self,
        resource: &Resource,
        named: &NamedFile<'_>,
        request: &FileRequest<'_>,
        look: LookupContext<'_>,
        pending_read: Option<&PendingRead>,
    ) -> Result<Result<FileReply, NamedFileError>, ReadWait> {
        let plain = resource.plain();
        let len = plain.len();
        if named.offset > len {
            return Ok(Err(NamedFileError::BeyondEnd { file_bytes: len }));
        }
        let end = named.length.map_or(len, |length| len.min(named.offset.saturating_add(length)));
        let one = match (named.is_slice(), named.content_type) {
            (false, None) => plain.clone(),
            (_, content_type) => plain.derived(&(named.offset..end), content_type).into(),
        };
        let untagged;
        let heads = match one.heads() {
            Some(heads) => heads,
            None => {
                untagged = one.untagged();
                &untagged
            }
        };
        let head = request.head;
        let reply = match head.method() {
            Method::Get | Method::Head if named.status == StatusCode::OK => {
                let reply = selected::reply(&one, heads, head, look.wall_s());
                if named.is_slice() || !matches!(reply.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
                    reply
                } else {
                    self.with_digests(reply, &one, head, pending_read)?
                }
            }
            _ => FileReply { lines: heads.lines.clone(), ..selected::whole(&one, named.status) },
        };
        Ok(Ok(reply))
    }
}
