//! The tables of a catalog, as the tests read them: by the code of the crate, and by other engines.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value as Json;
use tollgate_lake::iceberg::{
    FileCatalog, FolderObjects, FoundObject, Locations, Objects, TableName, TableOptions, Tables,
};
use tollgate_lake::{Created, LakeError, Partition};
use tollgate_load::CatalogPlace;

use crate::cluster::shared;
use crate::readers::python;
use crate::rest_http;
use crate::site::Site;

/// A catalog that only finds tables.
struct Found(CatalogPlace);

/// Returns the location of the metadata of a table.
pub(crate) fn location(catalog: &CatalogPlace, table: &str) -> Option<String> {
    let question = format!(
        "SELECT metadata_location FROM iceberg_tables \
         WHERE catalog_name = 'tollgate' AND table_namespace = 'web' AND table_name = '{table}'"
    );
    match catalog {
        CatalogPlace::Sqlite(path) => {
            let connection = Connection::open(path).unwrap();
            connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
            connection.query_row(&question, [], |row| row.get(0)).optional().unwrap()
        }
        CatalogPlace::Postgres(url) => {
            let url = url.to_string();
            let database = url.rsplit('/').next().unwrap();
            let found = shared().sql(database, &question);
            (!found.trim().is_empty()).then(|| found.trim().to_owned())
        }
        CatalogPlace::Rest(rest) => {
            let config = rest_http::get(&rest.address, "/v1/config");
            let prefix = config["overrides"]["prefix"].as_str().filter(|prefix| !prefix.is_empty());
            let prefix = prefix.map_or_else(String::new, |prefix| format!("/{prefix}"));
            let found = rest_http::get(&rest.address, &format!("/v1{prefix}/namespaces/web/tables/{table}"));
            found["metadata-location"].as_str().map(str::to_owned)
        }
    }
}

impl Locations for Found {
    fn location(&mut self, table: &TableName) -> Result<Option<String>, LakeError> {
        Ok(location(&self.0, &table.table))
    }

    fn tables(&mut self, _: &str) -> Result<Vec<String>, LakeError> {
        unreachable!()
    }

    fn add(&mut self, _: &TableName, _: &str) -> Result<bool, LakeError> {
        unreachable!()
    }

    fn replace(&mut self, _: &TableName, _: &str, _: &str) -> Result<bool, LakeError> {
        unreachable!()
    }
}

/// Returns the address of the warehouse.
fn address(site: &Site) -> String {
    match &site.bucket {
        None => format!("file://{}", site.lake().display()),
        Some((options, _)) => format!("s3://{}/{}", options.place.bucket, options.place.prefix),
    }
}

/// The folder of a warehouse, whose files have another address if it is a bucket.
struct Mirror {
    folder: FolderObjects,
    address: String,
}

impl Objects for Mirror {
    fn address(&self) -> &str {
        &self.address
    }

    fn create(&self, _: &str, _: &[u8]) -> Result<Created, LakeError> {
        unreachable!()
    }

    fn replace(&self, _: &str, _: &str) -> Result<(), LakeError> {
        unreachable!()
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LakeError> {
        self.folder.read(name)
    }

    fn size(&self, name: &str) -> Result<Option<u64>, LakeError> {
        self.folder.size(name)
    }

    fn walk(&self, prefix: &str) -> Result<Vec<FoundObject>, LakeError> {
        self.folder.walk(prefix)
    }

    fn remove(&self, _: &str) -> Result<(), LakeError> {
        unreachable!()
    }
}

/// Returns the names of the files that a table has now, in order.
pub(crate) fn files(site: &Site, catalog: &CatalogPlace, table: &str) -> Vec<String> {
    let options = TableOptions {
        sink: "lake".to_owned(),
        namespace: "web".to_owned(),
        partition: Partition::Day,
        snapshots_kept: None,
    };
    let objects: Arc<dyn Objects> =
        Arc::new(Mirror { folder: FolderObjects::new(&site.lake()), address: address(site) });
    let catalog = FileCatalog::new(Box::new(Found(catalog.clone())), objects.clone(), || 0);
    let mut files = Tables::new(objects, Box::new(catalog), options, || 0).files(table).unwrap();
    files.sort();
    files
}

/// Reads a table with pyiceberg and with DuckDB.
pub(crate) fn read(catalog: &str, site: &Site, table: &str) -> Json {
    let mut arguments = vec![catalog.to_owned(), address(site), format!("web.{table}")];
    if let Some((options, _)) = &site.bucket {
        let secret = options.secret_key.as_ref().unwrap().reveal().to_owned();
        arguments.extend([options.endpoint.clone().unwrap(), options.access_key.clone().unwrap(), secret]);
    }
    python("read_iceberg.py", &arguments)
}
