//! A REST catalog of Iceberg. The server keeps the metadata of tables, and writes their metadata files.
//!
//! A commit is sent once. An answer of 409 means that the table no longer meets the requirements. After any
//! other error, it is unknown whether the table is changed, so the caller loads the table again.
//!
//! Source: <https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml>

mod auth;
mod encoding;
mod error;
mod session;
#[cfg(test)]
mod tests;
mod token;

use serde_json::{Value as Json, json};
use tollgate_lake::LakeError;
use tollgate_lake::iceberg::{Catalog, CatalogTable, NewTable, TableCommit, TableName};
use tollgate_ship::AwsKeys;

use encoding::encoded;
use error::{CallError, RestError};
use session::{ANSWER_BYTES_MAX, Call, RestSession};

use super::rest_options::RestOptions;

/// Maximum bytes of the metadata of a table.
const METADATA_BYTES_MAX: usize = 256 << 20;
/// Maximum number of pages of a list of tables.
const PAGES_MAX: usize = 1_000;

/// A REST catalog.
pub(super) struct RestCatalog {
    options: RestOptions,
    keys: AwsKeys,
    session: Option<RestSession>,
}

impl RestCatalog {
    /// Creates a catalog. Connects to nothing. `keys` sign requests if the options say so.
    pub(super) fn new(options: &RestOptions, keys: AwsKeys) -> Self {
        Self { options: options.clone(), keys, session: None }
    }

    fn session(&mut self) -> Result<&mut RestSession, RestError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => RestSession::open(&self.options, &self.keys)?,
        };
        Ok(self.session.insert(session))
    }

    fn get(&mut self, action: &'static str, path: &str) -> Result<Option<Json>, LakeError> {
        let call = Call { action, method: "GET", path, content: None, bytes_max: METADATA_BYTES_MAX };
        // The answer about the configuration says nothing about the table.
        match self.session().map_err(failed)?.call(&call) {
            Ok(answer) => Ok(Some(answer)),
            Err(RestError::Call(CallError::Status { status: 404, is_of_catalog: true, .. })) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn form(&self, action: &'static str, reason: &'static str) -> LakeError {
        failed(CallError::Form { action, address: self.options.address.clone(), reason }.into())
    }

    /// Sends a change. Returns false if the catalog answers with `refusal`.
    fn post(
        &mut self,
        action: &'static str,
        (path, bytes_max): (&str, usize),
        content: &Json,
        refusal: u16,
    ) -> Result<bool, LakeError> {
        let call = Call { action, method: "POST", path, content: Some(content), bytes_max };
        match self.session().map_err(failed)?.call(&call) {
            Ok(_) => Ok(true),
            Err(RestError::Call(CallError::Status { status, .. })) if status == refusal => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Adds a namespace, unless it is there.
    fn add_namespace(&mut self, namespace: &str) -> Result<(), LakeError> {
        let content = json!({"namespace": [namespace], "properties": {}});
        self.post("add a namespace", ("namespaces", ANSWER_BYTES_MAX), &content, 409).map(drop)
    }
}

impl Catalog for RestCatalog {
    fn load(&mut self, table: &TableName) -> Result<Option<CatalogTable>, LakeError> {
        let action = "load a table";
        let Some(mut found) = self.get(action, &path_of(table))? else { return Ok(None) };
        let location = found["metadata-location"].as_str().map(str::to_owned);
        let metadata = found.get_mut("metadata").map(Json::take).filter(Json::is_object);
        let metadata = metadata.ok_or_else(|| self.form(action, "has no metadata"))?;
        Ok(Some(CatalogTable::new(location, metadata)))
    }

    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError> {
        let action = "list the tables";
        let (base, mut tables) = (tables_of(namespace), Vec::new());
        // Without a first page, there is no namespace.
        let Some(mut found) = self.get(action, &base)? else { return Ok(tables) };
        for _ in 0..PAGES_MAX {
            let entries = found["identifiers"].as_array();
            for entry in entries.ok_or_else(|| self.form(action, "has no list of tables"))? {
                let name = entry["name"].as_str();
                tables.push(name.ok_or_else(|| self.form(action, "has a table without a name"))?.to_owned());
            }
            let Some(next) = found["next-page-token"].as_str().filter(|page| !page.is_empty()) else {
                return Ok(tables);
            };
            let next = self.get(action, &format!("{base}?pageToken={}", encoded(next)))?;
            found = next.ok_or_else(|| self.form(action, "names a page that is missing"))?;
        }
        Err(self.form(action, "has more than 1000 pages"))
    }

    fn create(&mut self, table: &TableName, new: &NewTable) -> Result<bool, LakeError> {
        let mut properties = new.properties.clone();
        properties["format-version"] = "2".into();
        let content = json!({
            "name": table.table,
            "location": new.location,
            "schema": new.schema,
            "partition-spec": new.spec,
            "stage-create": false,
            "properties": properties,
        });
        // A user without the right to add namespaces may use one that exists.
        if self.get("find a namespace", &format!("namespaces/{}", encoded(&table.namespace)))?.is_none() {
            self.add_namespace(&table.namespace)?;
        }
        let path = tables_of(&table.namespace);
        self.post("create a table", (&path, METADATA_BYTES_MAX), &content, 409)
    }

    fn commit(
        &mut self,
        table: &TableName,
        _: &CatalogTable,
        commit: &TableCommit,
    ) -> Result<bool, LakeError> {
        let mut content = serde_json::to_value(commit).map_err(LakeError::call("write", "a commit"))?;
        content["identifier"] = json!({"namespace": [table.namespace], "name": table.table});
        self.post("commit to a table", (&path_of(table), METADATA_BYTES_MAX), &content, 409)
    }
}

fn tables_of(namespace: &str) -> String {
    format!("namespaces/{}/tables", encoded(namespace))
}

fn path_of(table: &TableName) -> String {
    format!("{}/{}", tables_of(&table.namespace), encoded(&table.table))
}

fn failed(error: RestError) -> LakeError {
    LakeError::call("use", "the catalog")(error)
}
