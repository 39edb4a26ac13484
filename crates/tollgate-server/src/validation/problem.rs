//! Problem details for a request that is not valid (RFC 9457), in JSON or XML.

use tollgate_http::{RequestHead, StatusCode, accepted_media};
use tollgate_validate::{DocumentFault, FaultKind};
use tollgate_xml::{Place, escape};

use crate::reply::Reply;

/// The media types of problems, and those of clients that do not know problems. XML has the even places.
const OFFERED: [&str; 4] =
    ["application/problem+xml", "application/problem+json", "application/xml", "application/json"];
/// The namespace of problems in XML (RFC 9457 appendix B).
const NAMESPACE: &str = "urn:ietf:rfc:7807";

/// The form of a problem, which the field `Accept` of the request chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemForm {
    Xml,
    Json,
}

impl ProblemForm {
    pub(super) fn of(head: &RequestHead) -> Self {
        if accepted_media(head, &OFFERED).is_multiple_of(2) { Self::Xml } else { Self::Json }
    }

    /// Creates the reply to a document with a fault.
    pub(super) fn of_fault(self, fault: &DocumentFault) -> Reply {
        let (status, title) = match fault.kind {
            FaultKind::Malformed => (StatusCode::BAD_REQUEST, "Bad Request"),
            FaultKind::Invalid | FaultKind::Limit => {
                (StatusCode::UNPROCESSABLE_CONTENT, "Unprocessable Content")
            }
        };
        let DocumentFault { message, path, line, column, byte, .. } = fault;
        let numbers = [("line", *line), ("column", *column), ("byte", *byte)];
        self.reply(status, title, message, Some((path, numbers)))
    }

    /// Creates the reply to content of another media type.
    pub(super) fn of_media_type(self) -> Reply {
        let text =
            "the content type is not supported: allowed are application/xml, text/xml and types with +xml";
        let reply = self.reply(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type", text, None);
        reply.with("Accept", "application/xml, text/xml")
    }

    fn reply(
        self,
        status: StatusCode,
        title: &str,
        detail: &str,
        place: Option<(&str, [(&str, u64); 3])>,
    ) -> Reply {
        let code = status.as_u16();
        match self {
            Self::Json => {
                let mut object = serde_json::json!({ "title": title, "status": code, "detail": detail });
                if let Some((path, numbers)) = place {
                    object["path"] = path.into();
                    numbers.into_iter().for_each(|(name, number)| object[name] = number.into());
                }
                Reply::new(status, OFFERED[1], format!("{object}\n").into())
            }
            Self::Xml => {
                let mut out = Vec::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<problem xmlns=\"");
                out.extend_from_slice(NAMESPACE.as_bytes());
                out.extend_from_slice(b"\">");
                element(&mut out, "title", title);
                element(&mut out, "status", &code.to_string());
                element(&mut out, "detail", detail);
                if let Some((path, numbers)) = place {
                    element(&mut out, "path", path);
                    numbers
                        .into_iter()
                        .for_each(|(name, number)| element(&mut out, name, &number.to_string()));
                }
                out.extend_from_slice(b"</problem>\n");
                Reply::new(status, OFFERED[0], out.into())
            }
        }
    }
}

fn element(out: &mut Vec<u8>, name: &str, text: &str) {
    out.extend_from_slice(format!("<{name}>").as_bytes());
    // The texts of faults have no character that XML does not allow.
    let _ = escape(text, Place::Content, out);
    out.extend_from_slice(format!("</{name}>").as_bytes());
}
