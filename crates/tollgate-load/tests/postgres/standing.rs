//! Tests of sinks that cannot be opened or loaded into. Their loaders wait, report the reason, and continue
//! after the repair without a restart.

use std::sync::Arc;

use tollgate_load::{DeclaredStreams, LoadOptions, Loader, SinkOptions};
use tollgate_log::{ColumnType, DiskStorage, Schema};

use crate::cluster::shared;
use crate::site::{Site, chain, column, eventually, sink_at, visits};

/// Starts a loader, and waits until its last error contains `told`. Then calls `mend`, and waits until all
/// rows are loaded and none is rejected.
fn check(site: &Site<'_>, told: &str, mend: impl FnOnce()) {
    site.write_visits(0..20);
    let loader = Loader::start(site.load_options(), Arc::new(DiskStorage), None).unwrap();
    eventually("it is told", || loader.status().last_error.is_some());
    let error = loader.status().last_error.unwrap();
    assert!(error.contains(told), "{told:?} in {error:?}");
    mend();
    eventually("all is loaded", || loader.status().rows == 20);
    site.assert_visits(0..20);
    assert_eq!(loader.status().rejects, 0);
}

/// Makes a site whose sink logs in as another role. Returns the site and the name of the role.
fn with_role(rights: &str) -> (Site<'static>, String) {
    let mut site = Site::new(shared());
    let role = format!("stands_{}", site.database);
    site.sql(&format!("CREATE ROLE {role} {rights}"));
    let url = site.cluster.url(&site.database).replace("user=tollgate", &format!("user={role}"));
    site.options = sink_at(&url);
    (site, role)
}

#[test]
fn a_login_that_is_refused_is_told_and_tried_again() {
    let (site, role) = with_role("NOLOGIN SUPERUSER");
    check(&site, "is not permitted to log in (SQLSTATE 28000)", || {
        site.sql(&format!("ALTER ROLE {role} LOGIN"));
    });
}

#[test]
fn a_grant_that_lacks_for_our_own_tables_is_told_and_tried_again() {
    let (site, role) = with_role("LOGIN");
    let database = site.database.clone();
    check(&site, "permission denied for database", || {
        site.sql(&format!(
            "GRANT CREATE ON DATABASE {database} TO {role}; GRANT CREATE ON SCHEMA public TO {role}"
        ));
    });
}

#[test]
fn a_database_that_is_not_there_is_told_and_tried_again() {
    let mut site = Site::new(shared());
    let later = format!("{}_later", site.database);
    site.options = sink_at(&site.cluster.url(&later));
    site.database.clone_from(&later);
    check(&site, "does not exist (SQLSTATE 3D000)", || {
        site.cluster.sql("postgres", &format!("CREATE DATABASE {later}"));
    });
}

#[test]
fn a_database_that_takes_no_writes_is_told_and_tried_again() {
    let (site, role) = with_role("LOGIN SUPERUSER");
    site.sql(&format!("ALTER ROLE {role} SET default_transaction_read_only = on"));
    check(&site, "read-only transaction (SQLSTATE 25006)", || {
        site.sql(&format!("ALTER ROLE {role} RESET default_transaction_read_only"));
    });
}

#[test]
fn a_schema_that_lacks_for_tables_is_told_and_tried_again() {
    let mut site = Site::new(shared());
    site.postgres().table_schema = "web".to_owned();
    site.sql(
        "ALTER DATABASE CURRENT_DATABASE SET search_path = web, public"
            .replace("CURRENT_DATABASE", &site.database)
            .as_str(),
    );
    check(&site, "schema \"web\" does not exist (SQLSTATE 3F000)", || {
        site.sql("CREATE SCHEMA web");
    });
}

#[test]
fn a_file_to_run_after_loads_that_is_wrong_is_told_and_read_again() {
    let mut site = Site::new(shared());
    let file = site.file("after.sql");
    std::fs::write(&file, "SELEC 1").unwrap();
    site.options.after_load = Some(file.clone());
    check(&site, "syntax error", || std::fs::write(&file, "SELECT 1").unwrap());
}

#[test]
fn bookkeeping_of_a_later_version_is_left_alone_and_told() {
    let site = Site::new(shared());
    site.load();
    assert_eq!(site.sql("SELECT version FROM tollgate.meta"), "1");
    site.sql("UPDATE tollgate.meta SET version = 7; DROP TABLE tollgate.ticks");
    let told = "is of version 7, this program knows version 1";
    let error = tollgate_load::audit(&DiskStorage, &site.dir(), &site.options).unwrap_err();
    assert!(chain(&error).contains(told), "{}", chain(&error));
    check(&site, told, || {
        assert_eq!(site.sql("SELECT to_regclass('tollgate.ticks') IS NULL"), "t", "nothing is made");
        site.sql("UPDATE tollgate.meta SET version = 1");
    });
}

#[test]
fn tables_of_a_build_that_knew_no_version_are_of_the_first() {
    let site = Site::new(shared());
    site.load();
    site.sql("DROP TABLE tollgate.meta, tollgate.refusals");
    site.write_visits(0..20);
    assert_eq!(site.load().rows, 20);
    assert_eq!(site.sql("SELECT version FROM tollgate.meta"), "1");
}

#[test]
fn a_stream_that_does_not_fit_its_table_is_found_without_a_trace() {
    let site = Site::new(shared());
    let declaring = |schema| SinkOptions { declared: [schema].into_iter().collect(), ..site.options.clone() };
    declaring(visits()).check().unwrap();
    site.sql("CREATE TABLE visits (n text, path text)");
    let error = declaring(visits()).check().unwrap_err();
    assert!(error.is_of_configuration(), "{error}");
    let text = error.to_string();
    assert!(text.contains("column \"n\" of table") && text.contains("is text, the stream has int"), "{text}");
    let fitting = Schema::new("visits", vec![column("path", ColumnType::Text)]).unwrap();
    declaring(fitting).check().unwrap();
    assert_eq!(site.sql("SELECT to_regnamespace('tollgate') IS NULL"), "t", "nothing is made");
}

#[test]
fn a_column_of_another_type_than_the_configured_one_is_not_made() {
    let site = Site::new(shared());
    let stranger = Schema::new("visits", vec![column("n", ColumnType::Text)]).unwrap();
    let declared: DeclaredStreams = [stranger].into_iter().collect();
    let sink = SinkOptions { declared, ..site.options.clone() };
    site.write_visits(0..10);
    let options = LoadOptions { sink, ..site.load_options() };
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    eventually("the log is refused", || loader.status().last_error.is_some());
    let error = loader.status().last_error.unwrap();
    assert!(error.contains("is int in the log and text in the configuration"), "{error}");
    assert_eq!(site.sql("SELECT to_regclass('visits') IS NULL"), "t", "no table is made");
}
