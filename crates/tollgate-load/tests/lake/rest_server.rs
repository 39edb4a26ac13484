//! A REST catalog for tests, with real sockets. It can fail on demand, and can ask for tokens and signatures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tollgate_load::{CatalogPlace, RestAuth, RestOptions};

use crate::rest_http::{Reply, Request, serve};
use crate::rest_tables::{Refusal, Table, Tables};
use crate::sigv4;

/// Longest time without progress of a call of the program.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// The paths that give tokens.
const TOKEN_PATHS: [&str; 2] = ["/v1/oauth/tokens", "/identity/token"];

/// What happens at a commit of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The table is changed, and the answer has this status.
    CommitThen(u16),
    /// The table is changed, and the connection ends without an answer.
    CommitThenCut,
    /// The table is changed, and no answer comes.
    CommitThenSilence,
    /// The table is not changed, and the answer has this status.
    Refuse(u16),
    /// Another program changes the table first.
    Beaten,
}

/// The authentication that the server wants.
#[derive(Debug, Clone)]
pub(crate) enum Guard {
    Open,
    /// This token is valid.
    Token(String),
    /// The secret of the client `loader` gives a token, which is valid for some requests.
    Client {
        secret: String,
        uses_max: u32,
    },
    SigV4,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tables: Tables,
    pub(crate) faults: VecDeque<Fault>,
    pub(crate) guard: Guard,
    /// Number of tokens that were given, and how often the last one may still be used.
    pub(crate) tokens: (u32, u32),
    /// The seconds for which a token says that it is valid.
    pub(crate) expires_in: u64,
    /// Method and target of each request.
    pub(crate) seen: Vec<String>,
    /// The prefix of all paths.
    prefix: String,
}

#[derive(Debug, Clone)]
pub(crate) struct RestServer {
    state: Arc<Mutex<State>>,
    pub(crate) address: String,
}

impl RestServer {
    pub(crate) fn start() -> Self {
        Self::with_prefix("")
    }

    pub(crate) fn with_prefix(prefix: &str) -> Self {
        let state = Arc::new(Mutex::new(State {
            tables: Tables::default(),
            faults: VecDeque::new(),
            guard: Guard::Open,
            tokens: (0, 0),
            expires_in: 3_600,
            seen: Vec::new(),
            prefix: prefix.to_owned(),
        }));
        let shared = state.clone();
        let address = serve(move |request| shared.lock().unwrap().answer(request));
        Self { state, address: format!("http://{address}") }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn options(&self, auth: RestAuth) -> RestOptions {
        RestOptions { auth, timeout: CALL_TIMEOUT, ..RestOptions::new(&self.address) }
    }

    pub(crate) fn place(&self, auth: RestAuth) -> CatalogPlace {
        CatalogPlace::Rest(Box::new(self.options(auth)))
    }

    /// Returns the metadata of a table.
    pub(crate) fn metadata(&self, table: &str) -> Json {
        self.state().tables.tables[&("web".to_owned(), table.to_owned())].metadata.clone()
    }

    /// Returns the number of rows that a table says it has.
    pub(crate) fn rows(&self, table: &str) -> u64 {
        let metadata = self.metadata(table);
        let last = metadata["snapshots"].as_array().unwrap().last().unwrap().clone();
        last["summary"]["total-records"].as_str().unwrap().parse().unwrap()
    }
}

fn error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::Json(status, json!({"error": {"message": message, "type": kind, "code": status}}))
}

fn loaded(result: Result<Table, Refusal>, config: &Json) -> Reply {
    match result {
        Ok(table) => {
            let Table { location, metadata, .. } = table;
            Reply::Json(200, json!({"metadata-location": location, "metadata": metadata, "config": config}))
        }
        Err((status, kind)) => error(status, kind, "refused"),
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Reply {
        self.seen.push(format!("{} {}", request.method, request.target));
        if TOKEN_PATHS.contains(&request.path()) {
            return self.token(request);
        }
        if let Err(reason) = self.check(request) {
            return error(401, "NotAuthorizedException", &reason);
        }
        if request.path() == "/v1/config" {
            return Reply::Json(200, json!({"defaults": {}, "overrides": {"prefix": self.prefix}}));
        }
        let base = format!("/v1/{}", self.prefix);
        let Some(path) = request.path().strip_prefix(base.trim_end_matches('/')) else {
            return error(404, "NotFoundException", "no such path");
        };
        let path = path.to_owned();
        let parts: Vec<_> = path.split('/').skip(1).collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["namespaces", namespace]) => match self.tables.namespaces.contains(*namespace) {
                true => Reply::Json(200, json!({"namespace": [namespace], "properties": {}})),
                false => error(404, "NoSuchNamespaceException", "no such namespace"),
            },
            ("POST", ["namespaces"]) => {
                let namespace = request.json()["namespace"][0].as_str().unwrap().to_owned();
                match self.tables.namespaces.insert(namespace) {
                    true => Reply::Json(200, request.json()),
                    false => error(409, "AlreadyExistsException", "there is one"),
                }
            }
            ("GET", ["namespaces", namespace, "tables"]) => self.page(namespace, request),
            ("POST", ["namespaces", namespace, "tables"]) => {
                loaded(self.tables.create(namespace, &request.json()), &self.config())
            }
            ("GET", ["namespaces", namespace, "tables", table]) => {
                let found = self.tables.tables.get(&((*namespace).to_owned(), (*table).to_owned()));
                loaded(found.cloned().ok_or((404, "NoSuchTableException")), &self.config())
            }
            ("POST", ["namespaces", namespace, "tables", table]) => self.commit(namespace, table, request),
            _ => error(404, "NotFoundException", "no such path"),
        }
    }

    fn commit(&mut self, namespace: &str, table: &str, request: &Request) -> Reply {
        let fault = self.faults.pop_front().unwrap_or(Fault::None);
        if let Fault::Refuse(status) = fault {
            return error(status, "Refused", "on demand");
        }
        if fault == Fault::Beaten {
            self.tables.change(namespace, table);
        }
        let result = self.tables.commit(namespace, table, &request.json());
        match fault {
            Fault::CommitThen(status) if result.is_ok() => error(status, "CommitStateUnknown", "on demand"),
            Fault::CommitThenCut if result.is_ok() => Reply::Cut,
            Fault::CommitThenSilence if result.is_ok() => Reply::Silence,
            _ => loaded(result, &self.config()),
        }
    }

    /// Returns the configuration of a table. pyiceberg, which reads an open catalog, would follow it.
    fn config(&self) -> Json {
        match self.guard {
            Guard::Open => json!({}),
            _ => json!({"s3.endpoint": "http://127.0.0.1:1", "s3.access-key-id": "other"}),
        }
    }

    /// Lists one table at a time.
    fn page(&self, namespace: &str, request: &Request) -> Reply {
        let page = request.target.split_once("pageToken=").map_or(0, |(_, page)| page.parse().unwrap());
        let names = self.tables.tables.keys().filter(|(found, _)| found == namespace);
        let mut names = names.map(|(_, name)| name).skip(page);
        let found: Vec<_> =
            names.next().map(|name| json!({"namespace": [namespace], "name": name})).into_iter().collect();
        let next = names.next().map(|_| (page + 1).to_string());
        Reply::Json(200, json!({"identifiers": found, "next-page-token": next}))
    }

    fn token(&mut self, request: &Request) -> Reply {
        let Guard::Client { secret, uses_max } = &self.guard else {
            return error(404, "NotFoundException", "no tokens here");
        };
        let form = String::from_utf8(request.content.clone()).unwrap();
        let expected = format!(
            "grant_type=client_credentials&client_id=loader&client_secret={secret}&scope=all%20tables"
        );
        if form != expected {
            return Reply::Json(401, json!({"error": "invalid_client", "error_description": form}));
        }
        self.tokens = (self.tokens.0 + 1, *uses_max);
        let token = format!("token-{}", self.tokens.0);
        let answer = json!({"access_token": token, "token_type": "bearer", "expires_in": self.expires_in});
        Reply::Json(200, answer)
    }

    fn check(&mut self, request: &Request) -> Result<(), String> {
        let bearer = request.field("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let refused = || Err(format!("the token {} is not valid", bearer.unwrap_or("(none)")));
        match &self.guard {
            Guard::Open => Ok(()),
            Guard::Token(token) if bearer == Some(token) => Ok(()),
            Guard::Token(_) => refused(),
            Guard::Client { .. } => {
                if bearer != Some(&format!("token-{}", self.tokens.0)) || self.tokens.1 == 0 {
                    return refused();
                }
                self.tokens.1 -= 1;
                Ok(())
            }
            Guard::SigV4 => sigv4::check(request),
        }
    }
}
