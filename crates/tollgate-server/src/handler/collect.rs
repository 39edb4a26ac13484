//! The `collect` handler: writes the fields of JSON items into the columns of a stream. Each item is one
//! record.

mod batch;
mod item;
mod plan;
mod reply;
mod text;
mod xml;

use std::borrow::Cow;

use tollgate_http::StatusCode;
use tollgate_log::Transaction;
use tollgate_script::BodyError;

use super::collected::BODY_BYTES_MAX;
use super::exchange::Exchange;
use super::gated_reply::GatedReply;
use super::items::{Item, SplitError};
use super::records::refused;
use crate::item_summary::item_summary;
use crate::recorder::Recorder;
use crate::reply::Reply;
use crate::row::{Facts, TransactionEnd};
pub(super) use batch::Batch;
pub(super) use item::CollectedItem;
pub(super) use plan::CollectPlan;
pub(super) use text::utf8;

/// Records all items of a body in one transaction.
pub(super) fn answer(plan: &CollectPlan, exchange: &Exchange, recorder: &Recorder) -> GatedReply<'static> {
    let request = &exchange.request;
    let body = match request.body.read_within(BODY_BYTES_MAX as usize) {
        Ok(body) => body,
        Err(error) => return unreadable(&error).into(),
    };
    let items;
    let body = match plan.json(&body) {
        Ok(json) => {
            items = json;
            &items[..]
        }
        Err(error) => return unsplit(error).into(),
    };
    let text;
    let batch = match plan.split_unchecked(body) {
        Some(batch) => batch,
        None => {
            text = utf8(body);
            match plan.split(&text) {
                Ok(batch) => batch,
                Err(error) => return unsplit(error).into(),
            }
        }
    };
    let ending = TransactionEnd::Complete { status: plan.reply.status(), reply_bytes: None };
    let facts = Facts { request, took_us: exchange.took_us(), ending };
    let append = |log: &mut Transaction<'_>| {
        let mut rejected = Vec::new();
        let mut buffer = Vec::new();
        for (index, item) in batch.items.iter().enumerate() {
            if log.is_too_large() {
                break;
            }
            let item = PlacedItem { item: *item, place: index, batch: &batch };
            let reason = append_item(log, plan, &facts, &item, &mut buffer);
            rejected.extend(reason.map(|reason| (index, reason)));
        }
        rejected
    };
    match recorder.append(plan.stream.ack, &request.id, append) {
        Ok((gate, rejected)) => {
            gate.iter().for_each(|gate| gate.note_rejected(&rejected));
            let reply = recorded(plan, &batch, &rejected);
            let ack = Some(plan.stream.ack);
            GatedReply { reply: Cow::Owned(reply), gate, ack, streamed: None }
        }
        Err(error) => refused(&error, &exchange.request.id, recorder).into(),
    }
}

/// Returns the reply to a body that was recorded.
pub(super) fn recorded(plan: &CollectPlan, batch: &Batch<'_>, rejected: &[(usize, String)]) -> Reply {
    let summary = || {
        let told = rejected.iter().map(|(index, reason)| (*index, reason.as_str()));
        item_summary(batch.items.len(), told)
    };
    plan.reply.reply(summary, || batch.first_document())
}

/// Returns the reply to a body without items.
pub(super) fn unsplit(error: SplitError) -> Reply {
    match error {
        SplitError::Malformed(text) => Reply::text(StatusCode::BAD_REQUEST, text),
        SplitError::TooMany => {
            Reply::text(StatusCode::CONTENT_TOO_LARGE, "too many items: nothing was recorded")
        }
    }
}

fn unreadable(error: &BodyError) -> Reply {
    tracing::error!("request refused: {error}");
    match error {
        BodyError::TooLarge { .. } => Reply::text(StatusCode::CONTENT_TOO_LARGE, "content too large"),
        BodyError::Disk(_) => {
            let text = "the server could not read the content back: nothing was recorded";
            Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

/// An item of a body, with its index.
#[derive(Clone, Copy)]
struct PlacedItem<'b, 'a> {
    item: Item<'a>,
    place: usize,
    batch: &'b Batch<'a>,
}

/// Appends an item as a row, or as a reject. Returns the reason of a reject.
///
/// An item with bytes that are not UTF-8 is no JSON. It is then read again with U+FFFD in their place. So an
/// item without such bytes needs no check of its own.
fn append_item(
    log: &mut Transaction<'_>,
    plan: &CollectPlan,
    facts: &Facts<'_>,
    placed: &PlacedItem<'_, '_>,
    buffer: &mut Vec<u8>,
) -> Option<String> {
    let (mut reason, text) = append_row(log, plan, facts, placed, buffer).err()?;
    let text = utf8(text);
    if let (Item::Part(_), Cow::Owned(part)) = (placed.item, &text) {
        let mut buffer = Vec::new();
        let placed = PlacedItem { item: Item::Part(part), ..*placed };
        reason = append_row(log, plan, facts, &placed, &mut buffer).err()?.0;
    }
    log.reject(plan.stream.id, &reason, &plan.kept(placed.item, &text));
    Some(reason)
}

/// Appends an item as a row. If it is no row, returns the reason, and the text of the item.
fn append_row<'b>(
    log: &mut Transaction<'_>,
    plan: &CollectPlan,
    facts: &Facts<'_>,
    PlacedItem { item, place, batch }: &PlacedItem<'_, 'b>,
    buffer: &'b mut Vec<u8>,
) -> Result<(), (String, &'b [u8])> {
    let stream = &plan.stream;
    let contained = plan.contained(*item, buffer);
    let text = contained.as_ref().unwrap_or(item).text();
    let row = contained
        .and_then(|item| CollectedItem::new(item, *place, stream, batch.envelope(*place)))
        .and_then(|given| {
            log.row(stream.id, |row| stream.fill(row, facts, &given)).map_err(|error| error.to_string())
        });
    row.map_err(|reason| (reason, text))
}
