//! Tests of collected items of XML.

use tollgate_log::Level;
use tollgate_server::{CollectSpec, Doctype, MediaTypes, XmlItems};

use crate::collect_bodies::{check, post};
use crate::site::{Running, Site};

fn spec(each: &str) -> CollectSpec {
    let namespaces = vec![("e".to_owned(), "urn:events".to_owned())];
    let xml = Some(XmlItems { each: each.to_owned(), namespaces });
    CollectSpec { types: MediaTypes::xml(), xml, ..CollectSpec::default() }
}

fn site(each: &str, columns: &[&str]) -> Running {
    let site = Site::new().stream("events", Level::Synced, columns);
    let site = site.tune(|options| {
        // The configuration sets this for each column of XML.
        options.streams[0].columns.iter_mut().for_each(|column| column.coerce = true);
    });
    site.collect_with("/", spec(each)).start()
}

#[test]
fn items_of_xml_fill_columns() {
    let columns =
        ["kind text xml:@kind", "n int xml:e:data/e:n", "text text xml:.", "is bool xml:e:data/@is"];
    let server = site("/e:events/e:event", &columns);
    check(
        &server,
        "<events xmlns='urn:events'><event kind='a&amp;\"'><data is='true'>x<n>7</n></data></event><other/>\
         <event><data/><data><n>8</n></data></event></events>",
        r#"{"recorded":2}"#,
    );
    let expect = ["kind=a&\" n=7 text=x7 is=true", "kind=null n=8 text=8 is=null"];
    assert_eq!(server.records(), expect);
}

#[test]
fn an_item_of_xml_that_does_not_fit_is_a_reject_and_the_others_are_rows() {
    let server = site("//i", &["n int xml:@n"]);
    let reason = r#"column \"n\" takes int, found \"x\""#;
    check(
        &server,
        "<a><i n='1'/><b><i n='x'/></b><i n='3'><i n='4'/></i></a>",
        &format!(r#"{{"recorded":2,"rejected_count":1,"rejected":[{{"index":1,"reason":"{reason}"}}]}}"#),
    );
    let records = server.records();
    assert_eq!(records.len(), 3, "{records:?}");
    assert_eq!((records[0].as_str(), records[2].as_str()), ("n=1", "n=3"));
    assert!(records[1].ends_with(r#"{"xml:@n":"x"}"#), "{records:?}");
}

#[test]
fn a_doctype_without_internal_subset_is_skipped_if_the_option_says_so() {
    let site = Site::new().stream("events", Level::Synced, &["n text xml:@n"]);
    let site = site.tune(|options| options.script.doctype = Doctype::Skip);
    let server = site.collect_with("/", spec("/a/i")).start();
    check(&server, "<!DOCTYPE a PUBLIC '-//X' 'x.dtd'><a><i n='1'/></a>", r#"{"recorded":1}"#);
    let reply = post(&server, "", "<!DOCTYPE a [<!ENTITY b 'c'>]><a><i n='&b;'/></a>");
    assert!(reply.status == 400 && reply.content.contains("internal subset"), "{}", reply.content);
    assert_eq!(server.records(), ["n=1"]);
}

#[test]
fn a_body_that_is_not_xml_or_has_no_item_is_refused_as_a_whole() {
    let server = site("/a/i", &["n int xml:@n"]);
    let refused = |body: &str, status: u16, part: &str| {
        let reply = post(&server, "", body);
        assert!(
            reply.status == status && reply.content.contains(part),
            "{body}: {} {}",
            reply.status,
            reply.content
        );
    };
    refused("<a><i n='1'/></b>", 400, "the content is not XML: an end tag of another element: found \"b\"");
    refused("<!DOCTYPE a><a><i n='1'/></a>", 400, "the content is not XML: a DOCTYPE");
    refused("<a><b/></a>", 400, "the content has no item");
    refused("{}", 400, "the content is not XML: text outside the root element at byte 1");
    assert_eq!(post(&server, "Content-Type: application/json\r\n", "<a><i/></a>").status, 415);
    assert_eq!(
        post(&server, "Content-Type: application/soap+xml; charset=utf-8\r\n", "<a><i/></a>").status,
        200
    );
    assert_eq!(server.records(), ["n=null"]);
}
