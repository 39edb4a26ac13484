//! The validation of replies, between the handler and the `after` scripts.

use tollgate_http::StatusCode;

use super::endpoint::Handler;
use super::held_reply::{HELD_BYTES_MAX, HeldEnd, HeldReply};
use super::returned::{Returned, Tail};
use super::script::{self, Records};
use super::visit::{Stage, Visit};
use crate::options::ValidateMode;
use crate::reply::{Extent, Reply};
use crate::validation::{NotValid, ReplyJudge, ReplyRule, unread};

impl Visit {
    /// Validates the reply of the handler, if the route validates replies.
    pub(super) fn judge_reply(&mut self, reply: Reply, records: Records, tail: Option<Tail>) {
        let endpoint = &self.exchange.endpoint;
        let Some(validation) = &endpoint.validation else { return self.return_judged(reply, records, tail) };
        let Some(mut judge) = ReplyJudge::begin(validation, &endpoint.cells).map(Box::new) else {
            return self.return_judged(reply, records, tail);
        };
        let is_whole = validation.mode == ValidateMode::Whole;
        let is_too_long = matches!(reply.extent, Extent::Sized(bytes) if bytes > HELD_BYTES_MAX as u64);
        let rule = match ReplyRule::of(self.exchange.request.head.method(), &reply) {
            ReplyRule::Judge if is_whole && is_too_long => ReplyRule::Unread(unread::TOO_LONG),
            rule => rule,
        };
        match (rule, tail) {
            (ReplyRule::Pass, tail) => self.return_judged(reply, records, tail),
            (ReplyRule::Unread(reason), tail) => match judge.note_unread(reason) {
                Ok(()) => self.return_judged(reply, records, tail),
                Err(NotValid) => self.refuse_reply(),
            },
            (ReplyRule::Judge, None) => {
                self.stage = Stage::Judging(HeldReply::new(reply, records, None, judge).into());
            }
            (ReplyRule::Judge, Some(tail)) if is_whole => {
                let (endpoint, request) = (&self.exchange.endpoint, &self.exchange.request);
                let source = tail.source(endpoint, request, self.exchange.permit.take());
                self.stage = Stage::Judging(HeldReply::new(reply, records, source, judge).into());
            }
            (ReplyRule::Judge, Some(tail)) => match judge.all_of(&reply.content) {
                Ok(()) => {
                    self.judge = Some(judge);
                    self.return_judged(reply, records, Some(tail));
                }
                Err(NotValid) => self.refuse_reply(),
            },
        }
    }

    /// Returns the reply of a stage that held it.
    pub(super) fn end_held(&mut self, end: HeldEnd) {
        match end {
            HeldEnd::Valid(reply, records) => self.return_judged(*reply, records, None),
            HeldEnd::Refused => self.refuse_reply(),
            HeldEnd::Broken => {
                let (status, text) = match &self.exchange.endpoint.handler {
                    Handler::Proxy(_) => (StatusCode::BAD_GATEWAY, "the backend closed the connection"),
                    _ => (StatusCode::INTERNAL_SERVER_ERROR, script::FAILED),
                };
                self.return_final(Reply::text(status, text));
            }
        }
    }

    /// Replaces a reply that is not valid. As after a script that failed, nothing that the handler wanted to
    /// record is kept.
    #[cold]
    fn refuse_reply(&mut self) {
        let mut reply = match &self.exchange.endpoint.handler {
            Handler::Proxy(_) => Reply::text(StatusCode::BAD_GATEWAY, "the backend sent no valid reply"),
            _ => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "the reply is not valid"),
        };
        reply.is_invalid = true;
        self.return_final(reply);
    }

    fn return_final(&mut self, reply: Reply) {
        self.forget();
        let records = Records::default();
        let took_us = self.took_us(&records);
        self.stage = Stage::Returned(Some(Returned { reply, records, took_us, tail: None }));
    }
}
