//! Replies to requests for files, at once or after a thread found the missing data.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::io::Errno;
use tollgate_http::route::location_below;
use tollgate_http::{
    DigestAlgorithm, Method, Precondition, RequestHead, StatusCode, Validators, accepted_media, http_date,
    is_selective, push_field, wanted_digest,
};

use crate::digest::{CONTENT_DIGEST, REPR_DIGEST, digest_of, field_value};
use crate::digests::Known;
use crate::disk_jobs::DiskJobs;
use crate::files::Files;
use crate::listing::{self, Form, Rendered, Wanted};
use crate::lookup_context::LookupContext;
use crate::opened::OpenError;
use crate::options::Etag;
use crate::path_lookup::Found;
use crate::pending_read::{PendingRead, ReadOutcome, ReadWait, may_wait};
use crate::reply::FileReply;
use crate::representation::{Representation, tag_of_content};
use crate::request::FileRequest;
use crate::resource::CODINGS;
use crate::root::Beneath;
use crate::selected;

impl Files {
    /// Returns the reply to a request. The result is pending while a thread looks for missing data.
    ///
    /// Without a context, no thread is started. A result of pending then asks the caller to poll again, with
    /// a context and the same `pending_read`.
    ///
    /// # Cancel safety
    /// Dropping `pending_read` removes the request from the queue of waiting requests. A thread that has
    /// begun its work continues.
    pub fn poll_answer(
        &self,
        request: &FileRequest<'_>,
        pending_read: &mut Option<Box<PendingRead>>,
        mut context: Option<&mut Context<'_>>,
    ) -> Poll<FileReply> {
        loop {
            if let Some(pending_read) = pending_read {
                let Some(context) = context.as_deref_mut() else { return Poll::Pending };
                if let Some(news) = ready!(pending_read.poll(context)) {
                    return Poll::Ready(self.settled(news, request));
                }
            }
            match self.answer(request, pending_read.as_deref()) {
                Ok(reply) => return Poll::Ready(reply),
                Err(wait) => pending_read.get_or_insert_default().begin(wait),
            }
        }
    }

    /// Returns the reply to a request.
    ///
    /// # Errors
    /// The work of a thread that the request must wait for. The caller repeats the call after that work.
    fn answer(
        &self,
        request: &FileRequest<'_>,
        pending_read: Option<&PendingRead>,
    ) -> Result<FileReply, ReadWait> {
        let look = LookupContext::of(request, pending_read);
        if !matches!(request.head.method(), Method::Get | Method::Head) {
            let reply = FileReply::text(StatusCode::METHOD_NOT_ALLOWED, "this path allows only GET and HEAD");
            return Ok(self.with_page(reply.with("Allow", "GET, HEAD".to_owned()), look));
        }
        if let Some(one) = pending_read.and_then(PendingRead::digested) {
            return self.represent(one, request, look, pending_read);
        }
        match self.find(request.path_info(), look) {
            Ok(Found::Resource(resource)) => self.represent(
                &resource.select(request.head, &self.made, &self.digests),
                request,
                look,
                pending_read,
            ),
            Ok(Found::Folder) => {
                let location = location_below(request.path(), request.head.query());
                let text = "the path of this resource ends in a slash";
                let reply = FileReply::text(StatusCode::PERMANENT_REDIRECT, text);
                Ok(self.with_page(reply.with("Location", location), look))
            }
            Ok(Found::Listing) if !look.is_patient() => {
                Ok(self.with_page(self.refused(&OpenError::Busy(Errno::BUSY), request), look))
            }
            Ok(Found::Listing) => match self.root.beneath(look.at) {
                Ok(beneath) => Err(self.list(beneath, request)),
                Err(error) => Ok(self.with_page(self.refused(&error, request), look)),
            },
            Err(OpenError::Cold(path)) => Err(self.look_for(path, look)),
            Err(error) => Ok(self.with_page(self.refused(&error, request), look)),
        }
    }

    /// Returns work in which a thread opens a path that the system cannot resolve without the disk.
    pub(crate) fn look_for(&self, path: Box<str>, look: LookupContext<'_>) -> ReadWait {
        let beneath = self.root.beneath(look.at);
        let ends = if self.spec.precompressed { CODINGS.map(|(_, end)| end).to_vec() } else { Vec::new() };
        let work = self.work.clone();
        Box::pin(async move {
            let Ok(beneath) = beneath else { return ReadOutcome::Failed };
            let place = work.wait_to_look().await;
            let opened = DiskJobs::run(place, move || beneath.open_all(&path, &ends)).await;
            opened.map_or(ReadOutcome::Failed, ReadOutcome::Opened)
        })
    }

    fn list(&self, beneath: Beneath, request: &FileRequest<'_>) -> ReadWait {
        let head = request.head;
        let path_info = request.path_info();
        let wanted = Wanted {
            below: path_info.strip_prefix('/').unwrap_or(path_info).to_owned(),
            path: request.path().to_owned(),
            is_top: matches!(path_info, "" | "/"),
            index: self.spec.index.clone(),
            dotfiles: self.spec.dotfiles,
            form: form_for(head),
            algorithm: wanted_digest(head, "want-repr-digest"),
        };
        let work = self.work.clone();
        Box::pin(async move {
            let place = work.wait().await;
            let listed = DiskJobs::run(place, move || listing::list(&beneath, &wanted)).await;
            match listed.unwrap_or(Err(OpenError::Busy(Errno::CANCELED))).transpose() {
                Some(listed) => ReadOutcome::Listed(listed),
                None => ReadOutcome::Failed,
            }
        })
    }

    /// Returns the reply to a request whose last wait returned this result.
    fn settled(&self, news: ReadOutcome, request: &FileRequest<'_>) -> FileReply {
        let look = LookupContext::of(request, None);
        let error = match news {
            ReadOutcome::Reply(reply) => return *reply,
            ReadOutcome::Listed(Ok(rendered)) => return self.listed(rendered, request.head, look),
            ReadOutcome::Listed(Err(error)) => error,
            ReadOutcome::Digested(_) | ReadOutcome::Failed | ReadOutcome::Opened(_) => {
                OpenError::Busy(Errno::AGAIN)
            }
        };
        self.with_page(self.refused(&error, request), look)
    }

    /// Returns the reply with a listing. The entity tag is a digest of the listing, so the tag is always
    /// strong.
    fn listed(&self, rendered: Rendered, head: &RequestHead, look: LookupContext<'_>) -> FileReply {
        let form = form_for(head);
        let mut lines = Vec::new();
        let etag = match self.spec.etag {
            Etag::Off => String::new(),
            Etag::Stat | Etag::Content => tag_of_content(&rendered.sha256, None),
        };
        if !etag.is_empty() {
            push_field(&mut lines, b"ETag", etag.as_bytes());
        }
        push_field(&mut lines, b"Cache-Control", b"no-cache");
        push_field(&mut lines, b"Vary", b"Accept");
        self.spec.push_headers(&mut lines);
        let validators = Validators { etag: etag.as_bytes(), modified_s: None };
        let reply = match Precondition::evaluate(head, &validators) {
            Precondition::NotModified => FileReply::empty(StatusCode::NOT_MODIFIED),
            Precondition::Failed => {
                let reply = FileReply::text(
                    StatusCode::PRECONDITION_FAILED,
                    "the resource does not match the precondition",
                );
                return self.with_page(reply, look);
            }
            Precondition::Met => {
                let mut reply = FileReply::new(StatusCode::OK, form.content_type(), rendered.content);
                if let Some((algorithm, digest)) = rendered.digest {
                    reply.push(REPR_DIGEST, field_value(algorithm, &digest));
                }
                reply
            }
        };
        FileReply { lines: lines.into(), ..reply }
    }

    fn represent(
        &self,
        one: &Rc<Representation>,
        request: &FileRequest<'_>,
        look: LookupContext<'_>,
        pending_read: Option<&PendingRead>,
    ) -> Result<FileReply, ReadWait> {
        let head = request.head;
        let untagged;
        let heads = match one.heads_by(&self.digests) {
            Some(heads) => heads,
            None if may_wait(pending_read) => return Err(self.digests.make(one, DigestAlgorithm::Sha256)),
            // The file changes during every read, or cannot be read. A failure to read appears again when the
            // file is sent.
            None => {
                untagged = one.untagged();
                &untagged
            }
        };
        let is_selective = is_selective(head);
        let mut reply = if is_selective {
            selected::reply(one, heads, head, look.wall_s())
        } else {
            selected::all(one, heads)
        };
        let has_content = matches!(reply.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT);
        let date = |after_s: u32| {
            let date = http_date(UNIX_EPOCH + Duration::from_secs(look.wall_s() + u64::from(after_s)));
            String::from_utf8_lossy(&date).into_owned()
        };
        if let Some(fresh_s) = one.fresh_s().filter(|_| reply.status.as_u16() < 400) {
            reply.push("Expires", date(fresh_s));
        }
        // RFC 9110 section 8.8.2.1: the current date replaces a date in the future.
        if one.is_ahead() && has_content {
            reply.push("Last-Modified", date(0));
        }
        if has_content && is_selective {
            return self.with_digests(reply, one, head, pending_read);
        }
        Ok(if reply.status.as_u16() >= 400 { self.with_page(reply, look) } else { reply })
    }

    /// Adds the digests that the client wants (RFC 9530): of the representation, and of the sent content.
    pub(crate) fn with_digests(
        &self,
        mut reply: FileReply,
        one: &Rc<Representation>,
        head: &RequestHead,
        pending_read: Option<&PendingRead>,
    ) -> Result<FileReply, ReadWait> {
        let of_content = wanted_digest(head, "want-content-digest");
        let is_whole = reply.status == StatusCode::OK && head.method() != Method::Head;
        let of_whole = [
            (wanted_digest(head, "want-repr-digest"), REPR_DIGEST),
            (of_content.filter(|_| is_whole), CONTENT_DIGEST),
        ];
        for (algorithm, field) in of_whole {
            let Some(algorithm) = algorithm else { continue };
            match self.digests.find(one, algorithm) {
                Known::Digest(digest) => reply.push(field, field_value(algorithm, &digest)),
                Known::NotYet if may_wait(pending_read) => return Err(self.digests.make(one, algorithm)),
                Known::NotYet | Known::Never => {}
            }
        }
        match of_content.filter(|_| !is_whole) {
            // A reply to HEAD has no content, so this is the digest of empty content.
            Some(algorithm) if head.method() == Method::Head => {
                let nothing = digest_of(algorithm, b"");
                Ok(reply.with(CONTENT_DIGEST, field_value(algorithm, &nothing)))
            }
            Some(algorithm) => self.digests.add_to(reply, algorithm),
            None => Ok(reply),
        }
    }

    /// Adds the field lines that every reply has. If the status has an error page, the page replaces the
    /// content.
    fn with_page(&self, reply: FileReply, look: LookupContext<'_>) -> FileReply {
        let status = reply.status.as_u16();
        let page = self.spec.error_pages.iter().find(|(of, _)| *of == status);
        let page = page.and_then(|(_, path)| self.resource(path, look.at_once()).ok()?);
        let lines = self.lines();
        match page {
            None => FileReply { lines, ..reply },
            Some(page) => {
                let mut lines = Vec::from(lines);
                push_field(&mut lines, b"Content-Type", page.plain().content_type().as_bytes());
                let fields = reply.fields.into_iter().filter(|(name, _)| name != "Content-Type").collect();
                let whole = selected::whole(page.plain(), reply.status);
                FileReply { lines: lines.into(), fields, ..whole }
            }
        }
    }

    /// Returns the reply for a file that cannot be sent. Failures of the server are logged, at a limited
    /// rate.
    pub(crate) fn refused(&self, error: &OpenError, request: &FileRequest<'_>) -> FileReply {
        let (path, id) = (request.path(), request.id);
        match error {
            OpenError::Absent => FileReply::text(StatusCode::NOT_FOUND, "no resource has this path"),
            OpenError::Forbidden => {
                FileReply::text(StatusCode::FORBIDDEN, "the server may not read this resource")
            }
            OpenError::Rootless => unavailable(),
            OpenError::Cold(_) | OpenError::Busy(_) => {
                if let Some(left_out) = self.failures.note(Instant::now()) {
                    tracing::warn!(path, %id, left_out, "file not served: {error}");
                }
                unavailable()
            }
            OpenError::Broken(_) => {
                if let Some(left_out) = self.failures.note(Instant::now()) {
                    tracing::error!(path, %id, left_out, "file not served: {error}");
                }
                FileReply::text(StatusCode::INTERNAL_SERVER_ERROR, "the server cannot read the file")
            }
        }
    }
}

fn form_for(head: &RequestHead) -> Form {
    Form::ALL[accepted_media(head, &Form::MEDIA_TYPES)]
}

fn unavailable() -> FileReply {
    FileReply::text(StatusCode::SERVICE_UNAVAILABLE, "the server cannot open the file now")
        .with("Retry-After", "1")
}
