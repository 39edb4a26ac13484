//! The records that a captured request would make. Nothing is sent, and no record is written to the log.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_http::{RequestHead, StatusCode};
use tollgate_script::{
    Clock, FetchError, FetchRequest, Fetcher, Fetching, HostOptions, RequestId, TestRequest,
};
use uuid::Uuid;

use super::head::head;
use super::isolation::{TestError, exchange, isolated, runtime, unusable};
use crate::admit::Destination;
use crate::conn::decode_whole;
use crate::handler::{RecordOrigin, Rehearsed};
use crate::observe::WorkerCells;
use crate::options::ServerOptions;
use crate::overload::ScriptQueue;
use crate::reply::Reply;
use crate::row::SampleRow;
use crate::service::{Plan, Service};

/// A captured request.
#[derive(Debug)]
pub struct SampleRequest {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The header fields.
    pub fields: Vec<(String, String)>,
    /// The content, in its content coding.
    pub content: Bytes,
}

/// The result of a captured request.
#[derive(Debug)]
pub struct SampleReply {
    /// The path pattern of the route. `None` if no route answered.
    pub route: Option<String>,
    /// Status of the reply.
    pub status: u16,
    /// Content of the reply.
    pub content: Bytes,
    /// The records in their order.
    pub records: Vec<SampleRecord>,
    /// Error of a script that failed.
    pub error: Option<String>,
}

/// A record that a request would make.
#[derive(Debug)]
pub struct SampleRecord {
    /// The name of its stream.
    pub stream: String,
    /// Index of the item in the body. `None` for a record that a script emitted.
    pub index: Option<usize>,
    /// The row, or the reject.
    pub outcome: Result<SampleRow, SampleReject>,
}

/// A record that does not become a row.
#[derive(Debug)]
pub struct SampleReject {
    /// The reason.
    pub reason: String,
    /// The item that the table of rejects would keep.
    pub item: Vec<u8>,
}

/// Returns the reply and the records of a captured request.
///
/// # Errors
/// The server would not start, the request is invalid, or its route has a proxy.
pub fn sample(options: &ServerOptions, request: SampleRequest) -> Result<SampleReply, TestError> {
    let (options, _scratch) = isolated(options, &Clock::System)?;
    let limits = options.connection.head;
    let plan = Plan::unrecorded(options);
    let script_queue = Rc::new(ScriptQueue::new(HostOptions::default().slice, Duration::MAX));
    let service =
        Service::new(&plan, &script_queue, &WorkerCells::new()).map_err(|error| unusable(&error))?;
    service.hosts.set_fetcher(NoBackends);
    let SampleRequest { method, target, fields, content } = request;
    let fields = fields.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect();
    let asked = TestRequest {
        method,
        target,
        fields,
        content: Some(content.clone()),
        caller: None,
        client_certificate: None,
        signature: None,
    };
    let head = head(&asked, &limits).map_err(TestError::Unusable)?;
    runtime()?.block_on(answer(&service, head, content))
}

async fn answer(service: &Service, head: RequestHead, content: Bytes) -> Result<SampleReply, TestError> {
    let destination = match service.find(&head) {
        Ok(found) => found.destination(&head),
        Err(reply) => Destination::Reply(reply),
    };
    let (endpoint, place, routes) = match destination {
        Destination::Reply(reply) => return Ok(reply_of(None, (*reply).into())),
        Destination::Refused(refused) => return Ok(reply_of(None, refused.reply.into())),
        Destination::Endpoint { endpoint, place, routes } => (endpoint, place, routes),
    };
    let route = Some(endpoint.path.clone());
    if content.len() as u64 > endpoint.body_bytes_max {
        let reply = Reply::text(StatusCode::CONTENT_TOO_LARGE, "content too large");
        return Ok(reply_of(route, reply.into()));
    }
    if let Some(refusal) = endpoint.refusal(&head) {
        return Ok(reply_of(route, refusal.into()));
    }
    let content = match decode_whole(&head, content, endpoint.body_bytes_max) {
        Ok(content) => content,
        Err(reply) => return Ok(reply_of(route, (*reply).into())),
    };
    let id = RequestId::Made(Uuid::from_u128(1));
    let exchange = exchange(endpoint, routes, head, place, (id, &Clock::System), (None, None), content);
    let (rehearsed, _) = exchange.rehearse().await.map_err(TestError::Unusable)?;
    Ok(reply_of(route, rehearsed))
}

fn reply_of(route: Option<String>, Rehearsed { reply, records, error }: Rehearsed) -> SampleReply {
    let records = records.into_iter().map(|record| SampleRecord {
        stream: record.stream,
        index: match record.origin {
            RecordOrigin::Route(index) => Some(index),
            RecordOrigin::Emitted => None,
        },
        outcome: record
            .outcome
            .map(|row| row.row)
            .map_err(|reject| SampleReject { reason: reject.reason, item: reject.item }),
    });
    SampleReply {
        route,
        status: reply.status.as_u16(),
        content: reply.content,
        records: records.collect(),
        error,
    }
}

/// Fails every request of a script to a backend.
struct NoBackends;

impl Fetcher for NoBackends {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn fetch(&self, _: &str, _: FetchRequest) -> Fetching {
        let text = "a sample sends no request to a backend".to_owned();
        Box::pin(async move { Err(FetchError { name: "unresolved", text }) })
    }
}
