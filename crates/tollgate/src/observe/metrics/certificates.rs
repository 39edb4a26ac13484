//! The metrics of certificates.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tollgate_meter::{Exposition, Kind};

use crate::certificates::Certificates;

/// Adds the metrics of all certificates. Of two certificates with one name, the first to expire counts.
pub(super) fn expose(out: &mut Exposition, certificates: &Certificates, now: Timestamp) {
    let mut left = BTreeMap::new();
    for served in &certificates.served {
        let seconds = served.left_seconds(now);
        let known = left.entry(served.name.as_str()).or_insert(seconds);
        *known = seconds.min(*known);
    }
    let text = "Time until a certificate of the server expires. Negative after its end.";
    let mut family = out.family("tollgate_certificate_expires_seconds", Kind::Gauge, text);
    for (name, seconds) in left {
        family.sample(&[("certificate", name)], seconds as f64);
    }
}
