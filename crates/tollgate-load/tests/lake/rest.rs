//! Tables of Iceberg in a REST catalog: each record is in its table once, whatever the server answers.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_load::{CatalogPlace, ClientCredentials, Loader, RestAuth, RestOptions, SigV4};
use tollgate_log::{ColumnType, DiskStorage, Value};

use crate::authority::certificate;
use crate::gateway::Gateway;
use crate::logs::{PATIENCE, eventually};
use crate::rest_http::{Reply, serve};
use crate::rest_server::{Fault, Guard, RestServer};
use crate::rest_tables::{RETENTION, Root};
use crate::site::Site;
use crate::store::in_bucket;
use crate::{sigv4, tables};

/// A site with tables in a REST catalog.
pub(crate) fn site() -> Site {
    site_at(RestServer::start(), RestAuth::None)
}

fn site_at(server: RestServer, auth: RestAuth) -> Site {
    Site { catalog: Some(server.place(auth)), rest: Some(server), ..Site::new() }
}

fn server_of(site: &Site) -> &RestServer {
    site.rest.as_ref().unwrap()
}

/// Checks that each engine has each of the visits once.
pub(crate) fn check_engines(site: &Site, rows: u64) {
    let found = tables::read(&server_of(site).address, site, "visits");
    assert_eq!(found["count"], json!([rows, rows]));
    assert_eq!(found["duckdb_count"], json!([rows.to_string(), rows.to_string()]));
    assert_eq!(found["summary"]["total-records"], json!(rows.to_string()));
}

/// Returns how often the server was asked for a path.
fn calls(site: &Site, path: &str) -> usize {
    server_of(site).state().seen.iter().filter(|line| line.ends_with(path)).count()
}

/// Loads, and returns the error of a catalog that stays away.
fn error_of(site: &Site) -> String {
    let mut options = site.options(site.sink());
    options.tuning.away_wait_max = Duration::from_millis(100);
    options.tuning.waits_for_segments = false;
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    eventually("the catalog has answered", || loader.status().last_error.is_some());
    format!("{:?}", loader.finish(PATIENCE).unwrap_err())
}

#[test]
fn other_engines_count_each_record_of_a_rest_catalog_once() {
    let mut site = site_at(RestServer::with_prefix("catalogs/main"), RestAuth::None);
    if let Some(CatalogPlace::Rest(options)) = &mut site.catalog {
        options.warehouse = Some("main one".to_owned());
    }
    let log = site.write(500);
    site.write(300);
    assert_eq!(site.load().rows, 800);
    assert_eq!(server_of(&site).state().seen[0], "GET /v1/config?warehouse=main%20one");
    check_engines(&site, 800);
    let found = tables::read(&server_of(&site).address, &site, "visits");
    assert_eq!(found["sum"], json!((0..500).sum::<i64>() + (0..300).sum::<i64>()));
    assert_eq!(found["tables"], json!(["web.tollgate_gaps", "web.tollgate_rejects", "web.visits"]));
    assert_eq!((&found["planned_none"], &found["planned_days"]), (&json!(0), &json!(0)));
    let position = found["properties"][format!("tollgate.position.lake.{log}")].as_str().unwrap().to_owned();
    assert_eq!(position.split(':').next(), Some("500"));
    assert_eq!(site.load().rows, 0);
    site.check_counts(&[500, 300]);
}

#[test]
fn a_new_column_is_in_the_table_of_a_rest_catalog() {
    let site = site();
    site.write(20);
    site.load();
    site.write_with_more(ColumnType::Text, Value::Text("new"));
    // Another program adds a column between the read of the table and the commit of the new one.
    server_of(&site).state().faults.push_back(Fault::Beaten);
    assert_eq!(site.load().rows, 1);
    assert!(server_of(&site).state().faults.is_empty());
    check_engines(&site, 21);
    let schemas = server_of(&site).metadata("visits")["schemas"].clone();
    let fields = schemas.as_array().unwrap().last().unwrap()["fields"].as_array().unwrap().clone();
    let names: Vec<_> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| **name == "more").count(), 1, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("other_")).count(), 1, "{names:?}");
}

#[test]
fn a_rest_catalog_that_fails_before_or_after_its_commits_has_each_record_once() {
    let mut site = site();
    site.file_bytes = 1;
    site.write(1_500);
    let faults = [
        Fault::None,
        Fault::CommitThen(502),
        Fault::CommitThenCut,
        Fault::Refuse(503),
        Fault::Beaten,
        Fault::CommitThen(500),
        Fault::CommitThenSilence,
        Fault::Refuse(409),
        Fault::CommitThen(503),
        Fault::Refuse(400),
        Fault::CommitThen(504),
        Fault::Refuse(429),
        Fault::CommitThen(409),
    ];
    server_of(&site).state().faults.extend(faults);
    site.load();
    assert!(server_of(&site).state().faults.is_empty(), "{:?}", server_of(&site).state().faults);
    site.check_all(1_500);
    assert_eq!(server_of(&site).rows("visits"), 1_500);
    check_engines(&site, 1_500);
}

#[test]
fn loaders_that_race_commit_each_load_to_a_rest_catalog_once() {
    let mut site = site();
    site.file_bytes = 1;
    site.write(400);
    site.write(200);
    site.load_with_four();
    site.check_counts(&[400, 200]);
    check_engines(&site, 600);
}

#[test]
fn a_token_is_read_from_its_file_again_after_it_changed() {
    let server = RestServer::start();
    server.state().guard = Guard::Token("sesame-1".to_owned());
    let mut site = site_at(server, RestAuth::None);
    let file = site.folder.path().join("token");
    fs::write(&file, "sesame-1\n").unwrap();
    site.catalog = Some(server_of(&site).place(RestAuth::TokenFile(file.clone())));
    site.file_bytes = 1;
    site.write(100);
    assert_eq!(site.load().rows, 100);
    server_of(&site).state().guard = Guard::Token("sesame-2".to_owned());
    site.write(50);
    let error = error_of(&site);
    assert!(error.contains("answers 401: NotAuthorizedException: the token *** is not valid"), "{error}");
    assert!(!error.contains("sesame"), "{error}");
    fs::write(&file, "sesame-2").unwrap();
    assert_eq!(site.load().rows, 50);
    fs::write(&file, "").unwrap();
    site.write(1);
    let error = error_of(&site);
    assert!(error.contains("token has no text, allowed is one line"), "{error}");
}

#[test]
fn a_token_of_a_client_is_renewed_before_and_after_its_end() {
    let server = RestServer::start();
    server.state().guard = Guard::Client { secret: "open sesame".to_owned(), uses_max: 3 };
    let mut site = site_at(server, RestAuth::None);
    let secret_file = site.folder.path().join("secret");
    fs::write(&secret_file, "open_sesame").unwrap();
    let mut client = ClientCredentials {
        client_id: "loader".to_owned(),
        secret_file: secret_file.clone(),
        scope: Some("all tables".to_owned()),
        url: None,
    };
    site.catalog = Some(server_of(&site).place(RestAuth::ClientCredentials(client.clone())));
    site.write(400);
    // The server repeats the wrong secret in its error.
    let error = error_of(&site);
    assert!(error.contains("cannot get a token") && error.contains("invalid_client"), "{error}");
    assert!(error.contains("client_secret=***") && !error.contains("sesame"), "{error}");
    server_of(&site).state().guard = Guard::Client { secret: "open_sesame".to_owned(), uses_max: 3 };
    assert_eq!(site.load().rows, 400);
    let renewed = server_of(&site).state().tokens.0;
    assert!(renewed >= 2, "{renewed} tokens");
    let of_catalog = calls(&site, "/v1/oauth/tokens");
    // Another server gives tokens. A token that ends at once is not used for a second call.
    client.url = Some(format!("{}/identity/token", server_of(&site).address));
    site.catalog = Some(server_of(&site).place(RestAuth::ClientCredentials(client)));
    server_of(&site).state().expires_in = 0;
    server_of(&site).state().guard = Guard::Client { secret: "open_sesame".to_owned(), uses_max: 1 };
    site.write(10);
    assert_eq!(site.load().rows, 10);
    assert_eq!(calls(&site, "/v1/oauth/tokens"), of_catalog);
    assert!(calls(&site, "/identity/token") > 3, "{} tokens", calls(&site, "/identity/token"));
    assert_eq!(server_of(&site).rows("visits"), 410);
}

#[test]
fn requests_to_a_catalog_of_aws_are_signed_with_the_keys_of_the_warehouse() {
    let gateway = Gateway::start();
    let server = RestServer::with_prefix("catalogs/123%3As3");
    server.state().tables.root =
        Root { address: "s3://logs/events".to_owned(), folder: gateway.path_of("events") };
    server.state().guard = Guard::SigV4;
    let aws = SigV4 { region: sigv4::REGION.to_owned(), service: sigv4::SERVICE.to_owned() };
    let site = in_bucket(site_at(server, RestAuth::SigV4(aws)), &gateway);
    site.write(400);
    assert_eq!(site.load().rows, 400);
    let other = SigV4 { region: "us-east-1".to_owned(), service: sigv4::SERVICE.to_owned() };
    let catalog = server_of(&site).place(RestAuth::SigV4(other));
    let wrong = Site { catalog: Some(catalog), ..site };
    wrong.write(1);
    let error = error_of(&wrong);
    assert!(error.contains("answers 401") && error.contains("another scope"), "{error}");
    server_of(&wrong).state().guard = Guard::Open;
    wrong.load();
    wrong.check_counts(&[400, 1]);
    let found = tables::read(&server_of(&wrong).address, &wrong, "visits");
    assert_eq!(found["count"], json!([401, 401]));
}

#[test]
fn an_address_without_a_catalog_gives_an_error_with_the_address() {
    let check = |reply: fn() -> Reply, text: &str| {
        let address = format!("http://{}", serve(move |_| reply()));
        let catalog = CatalogPlace::Rest(Box::new(RestOptions::new(&address)));
        let site = Site { catalog: Some(catalog), ..Site::new() };
        site.write(1);
        let error = error_of(&site);
        assert!(error.contains(&address) && error.contains(text), "{error}");
    };
    check(|| Reply::Json(404, json!("x")), "answers 404");
    check(|| Reply::Json(302, json!({})), "answers 302");
    check(|| Reply::Json(200, json!(null)), "is empty");
    check(|| Reply::Json(200, json!({})), "has no metadata");
    check(|| Reply::Json(200, json!([])), "has no metadata");
    check(|| Reply::Cut, "no answer");
    check(|| Reply::Json(200, json!({"defaults": {"prefix": "a?b"}})), "a prefix that is no path");
    check(|| Reply::Json(200, json!("x".repeat(17 << 20))), "exceeds its limit of 16777216 bytes");
}

#[test]
fn only_a_server_with_a_trusted_certificate_is_a_catalog() {
    let folder = tempfile::TempDir::new().unwrap();
    // The server of objects has no catalog, so its answer shows that it was asked.
    let gateway = Gateway::start_with(|host| Some(certificate(folder.path(), &format!("IP:{host}"))));
    let check = |authority: &str, text: &str| {
        let ca = Some(folder.path().join(authority));
        let options = RestOptions { ca, ..RestOptions::new(&format!("https://{}", gateway.address)) };
        let site = Site { catalog: Some(CatalogPlace::Rest(Box::new(options))), ..Site::new() };
        site.write(1);
        let error = error_of(&site);
        assert!(error.contains(text), "{error}");
    };
    check("ca.pem", "answers 400");
    check("other.pem", "invalid peer certificate");
}

#[test]
fn other_engines_read_the_merged_manifests_of_a_table() {
    let mut site = site();
    site.file_bytes = 1;
    site.write(100);
    site.load();
    let name = ("web".to_owned(), "visits".to_owned());
    let mut state = server_of(&site).state();
    let table = state.tables.tables.get_mut(&name).unwrap();
    table.metadata["properties"]["commit.manifest.min-count-to-merge"] = json!("3");
    drop(state);
    site.write(1_000);
    site.load();
    check_engines(&site, 1_100);
    let found = tables::read(&server_of(&site).address, &site, "visits");
    let (files, manifests) = (found["files"].as_u64().unwrap(), found["manifests"].as_u64().unwrap());
    assert!(files > 20 && manifests <= 3, "{files} files in {manifests} manifests");
    // A filter finds its files by the bounds of the merged manifest.
    assert_eq!((&found["planned_none"], &found["planned_days"]), (&json!(0), &json!(0)));
    site.check_counts(&[100, 1_000]);
}

#[test]
fn the_retention_of_the_branch_main_stays_after_an_append() {
    let site = site();
    site.write(10);
    site.load();
    let name = ("web".to_owned(), "visits".to_owned());
    let mut state = server_of(&site).state();
    let table = state.tables.tables.get_mut(&name).unwrap();
    RETENTION.iter().for_each(|key| table.metadata["refs"]["main"][key] = json!(700_000_000));
    let head = table.metadata["refs"]["main"].clone();
    drop(state);
    site.write(10);
    site.load();
    let mut found = server_of(&site).metadata("visits")["refs"]["main"].clone();
    assert_ne!(found["snapshot-id"], head["snapshot-id"]);
    found["snapshot-id"] = head["snapshot-id"].clone();
    assert_eq!(found, head);
}

#[test]
fn a_table_that_the_server_keeps_outside_of_the_warehouse_stops_the_sink() {
    let site = site();
    site.write(10);
    site.load();
    let name = ("web".to_owned(), "visits".to_owned());
    let mut state = server_of(&site).state();
    state.tables.tables.get_mut(&name).unwrap().metadata["location"] = json!("s3://other/visits");
    drop(state);
    site.write(10);
    let error = format!("{:?}", site.load_with(site.sink()).unwrap_err());
    let place = format!("is at s3://other/visits, outside of the warehouse file://{}", site.lake().display());
    assert!(error.contains(&place), "{error}");
}
