//! Validates the XML of requests and replies by the schemas of their route.
//!
//! [`Validation`] has the schemas of a route in one worker. [`RequestValidation`] judges the content of a
//! request while it arrives, and [`ReplyJudge`] judges the content of a reply. Both work in slices, so that
//! other connections have their turn. The caller decides what happens to the message.

mod plan;
mod problem;
mod reply;
mod request;
mod slice;

pub(crate) use plan::Validation;
pub(crate) use reply::{NotValid, ReplyJudge, ReplyRule, unread};
pub(crate) use request::RequestValidation;
pub(crate) use slice::SLICE;
