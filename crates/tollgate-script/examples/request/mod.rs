//! The request with which the examples call scripts.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tollgate_http::route::MatchedPath;
use tollgate_http::{HeadReader, Limits};
use tollgate_script::{Context, Request, RequestId, TraceRule};
use uuid::Uuid;

/// Creates the request from a complete head, and content that may be empty.
pub(crate) fn request(head: &str, content: &'static str) -> Result<Rc<Request>, Box<dyn Error>> {
    let mut bytes = BytesMut::from(head);
    let head =
        HeadReader::default().read(&mut bytes, &Limits::default()).map_err(|error| format!("{error:?}"))?;
    Ok(Rc::new(Request {
        place: MatchedPath::default(),
        remote_addr: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        tls: None,
        id: RequestId::Made(Uuid::from_u128(1)),
        time_us: 1_700_000_000_123_456,
        caller: None,
        trace_rule: TraceRule::TakeOrMake,
        is_sampled: false,
        body: Bytes::from_static(content.as_bytes()).into(),
        context: Context::default(),
        choice: std::cell::RefCell::default(),
        head: head.ok_or("the head is not whole")?,
    }))
}
