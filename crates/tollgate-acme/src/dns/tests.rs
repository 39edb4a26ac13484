//! Records of challenges: their files, and their removal after a failure.

use std::cell::RefCell;
use std::future::ready;

use super::*;

/// A provider that has the records, and refuses the next removals.
#[derive(Default)]
struct Provider {
    records: RefCell<Vec<(String, String)>>,
    refusals: RefCell<u32>,
}

impl DnsHook for std::rc::Rc<Provider> {
    fn set<'a>(&'a self, name: &'a str, value: &'a str) -> RecordChange<'a> {
        self.records.borrow_mut().push((name.to_owned(), value.to_owned()));
        Box::pin(ready(Ok(())))
    }

    fn remove<'a>(&'a self, name: &'a str, value: &'a str) -> RecordChange<'a> {
        let mut refusals = self.refusals.borrow_mut();
        if *refusals > 0 {
            *refusals -= 1;
            return Box::pin(ready(Err("429".to_owned())));
        }
        self.records.borrow_mut().retain(|record| *record != (name.to_owned(), value.to_owned()));
        Box::pin(ready(Ok(())))
    }
}

fn record(value: &str) -> DnsRecord {
    DnsRecord { name: "_acme-challenge.a.test".to_owned(), value: value.to_owned() }
}

#[test]
fn a_record_that_cannot_be_removed_stays_known_and_is_removed_later() {
    let parent = tempfile::tempdir().unwrap();
    let folder = StateFolder::new(parent.path());
    folder.create().unwrap();
    let provider = std::rc::Rc::new(Provider::default());
    let dns = Dns::Ready(Box::new(provider.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for value in ["one", "two"] {
            dns.set(&folder, &record(value)).await.unwrap();
        }
        dns.remove(&folder, &record("two")).await.unwrap();
        assert_eq!(folder.records(), [record("one")]);
        *provider.refusals.borrow_mut() = 1;
        let mut removals = Removals::default();
        assert!(removals.are_due(&folder, &dns));
        let error = removals.attempt(&folder, &dns).await.unwrap_err().to_string();
        assert_eq!(error, "the hook dns in [acme]: remove of the record _acme-challenge.a.test failed: 429");
        assert!(!removals.are_due(&folder, &dns), "the next attempt has a pause");
        assert!(
            Removals::default().are_due(&folder, &dns) && !Removals::default().are_due(&folder, &Dns::Absent)
        );
        removals.attempt(&folder, &dns).await.unwrap();
        assert!(folder.records().is_empty() && provider.records.borrow().is_empty());
    });
}

#[test]
fn a_record_has_a_file_before_the_hook_runs_and_keeps_it_after_a_failure() {
    struct Broken;
    impl DnsHook for Broken {
        fn set<'a>(&'a self, _: &'a str, _: &'a str) -> RecordChange<'a> {
            Box::pin(ready(Err("no zone".to_owned())))
        }
        fn remove<'a>(&'a self, _: &'a str, _: &'a str) -> RecordChange<'a> {
            Box::pin(ready(Ok(())))
        }
    }
    let parent = tempfile::tempdir().unwrap();
    let folder = StateFolder::new(parent.path());
    folder.create().unwrap();
    let dns = Dns::Ready(Box::new(Broken));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(dns.set(&folder, &record("one"))).unwrap_err().to_string();
    assert!(error.ends_with("set of the record _acme-challenge.a.test failed: no zone"), "{error}");
    assert_eq!(folder.records(), [record("one")]);
}
