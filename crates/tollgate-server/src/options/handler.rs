//! The handler of a route.

use std::path::PathBuf;

use bytes::Bytes;
use tollgate_files::FilesSpec;

use super::collect::CollectSpec;
use super::proxy::ProxySpec;
use super::when::{ChosenHandler, WhenSpec};

/// The handler of a route.
#[derive(Debug, Clone)]
pub enum HandlerSpec {
    /// A Luau script. `require` stays inside `root`.
    Script {
        /// Path of the script file.
        file: PathBuf,
        /// The folder from which the script may load modules.
        root: PathBuf,
    },
    /// Writes the fields of JSON items into the columns of the stream.
    Collect(Box<CollectSpec>),
    /// Sends the files of a folder.
    Files(Box<FilesSpec>),
    /// Forwards requests to a backend.
    Proxy(Box<ProxySpec>),
    /// A fixed reply.
    Reply {
        /// Status of the reply.
        status: u16,
        /// The content type.
        content_type: String,
        /// Content of the reply.
        body: Bytes,
    },
    /// A backend or a fixed reply, chosen by each request.
    When(Box<WhenSpec>),
}

impl From<&ChosenHandler> for HandlerSpec {
    fn from(chosen: &ChosenHandler) -> Self {
        match chosen.clone() {
            ChosenHandler::Proxy(proxy) => Self::Proxy(proxy),
            ChosenHandler::Reply { status, content_type, body } => Self::Reply { status, content_type, body },
        }
    }
}

impl HandlerSpec {
    /// Returns the options of each backend that the handler may forward requests to.
    pub fn proxies(&self) -> impl Iterator<Item = &ProxySpec> {
        let (one, several) = match self {
            Self::Proxy(proxy) => (Some(&**proxy), None),
            Self::When(when) => (None, Some(when.proxies())),
            Self::Script { .. } | Self::Collect(_) | Self::Files(_) | Self::Reply { .. } => (None, None),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}
