//! The certificates of a server: their names, their ends, and the faults of their files.

use std::time::Duration;

use jiff::Timestamp;
use tollgate_server::{Certificate, ServerTls};

use crate::wall::rfc3339;

/// A certificate is due if less than this part of its life is left.
const DUE_SHARE: u64 = 3;
/// A certificate with a long life is due if less than this time is left.
const DUE_MAX: Duration = Duration::from_hours(30 * 24);
/// Maximum number of host names in a text.
const HOSTS_SHOWN: usize = 5;

/// The certificates of a server at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Certificates {
    pub(crate) served: Vec<ServedCertificate>,
    /// The faults of files that cannot be used, each with its file.
    pub(crate) faults: Vec<String>,
}

/// A certificate that new handshakes may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedCertificate {
    /// The file of the certificate. For a certificate without a file: its first host name.
    pub(crate) name: String,
    hosts: Vec<String>,
    not_before: u64,
    not_after: u64,
}

impl Certificates {
    pub(crate) fn of(tls: &ServerTls) -> Self {
        let files = tls.options().certificates.iter().map(|files| files.certificate.display().to_string());
        let of_files = tls.certificates().into_iter().zip(files);
        let of_files = of_files.map(|(certificate, file)| ServedCertificate::new(&certificate, Some(file)));
        let issued = tls.issued();
        let issued = issued.iter().map(|certificate| ServedCertificate::new(certificate, None));
        Self { served: of_files.chain(issued).collect(), faults: tls.faults() }
    }
}

impl ServedCertificate {
    fn new(certificate: &Certificate, file: Option<String>) -> Self {
        let facts = certificate.facts();
        let hosts: Vec<_> = facts.host_names().map(str::to_owned).collect();
        Self {
            name: file.or_else(|| hosts.first().cloned()).unwrap_or_else(|| facts.subject.clone()),
            hosts,
            not_before: facts.not_before,
            not_after: facts.not_after,
        }
    }

    /// Returns the time until the certificate expires, in seconds. The time is negative after the end.
    pub(crate) fn left_seconds(&self, now: Timestamp) -> i64 {
        i64::try_from(self.not_after).unwrap_or(i64::MAX).saturating_sub(now.as_second())
    }

    /// Returns a text if the certificate has expired, or should be renewed, or is not valid yet.
    pub(crate) fn due(&self, now: Timestamp) -> Option<String> {
        let (left, name) = (self.left_seconds(now), self.shown());
        if left < 0 {
            return Some(format!("certificate {name} expired at {}", rfc3339(self.not_after)));
        }
        if now.as_second() < i64::try_from(self.not_before).unwrap_or(i64::MAX) {
            return Some(format!("certificate {name} is valid only from {}", rfc3339(self.not_before)));
        }
        let life = self.not_after.saturating_sub(self.not_before);
        let due = (life / DUE_SHARE).min(DUE_MAX.as_secs());
        let is_due = u64::try_from(left).is_ok_and(|left| left < due);
        let days = left / (24 * 60 * 60);
        is_due.then(|| format!("certificate {name} expires at {}, in {days} days", rfc3339(self.not_after)))
    }

    /// Returns the name with the host names.
    fn shown(&self) -> String {
        if self.hosts.is_empty() {
            return self.name.clone();
        }
        let more = self.hosts.len().saturating_sub(HOSTS_SHOWN);
        let mut hosts = self.hosts[..self.hosts.len() - more].to_vec();
        hosts.extend((more > 0).then(|| format!("{more} more")));
        format!("{} ({})", self.name, hosts.join(", "))
    }

    /// Returns a line about the certificate, for people.
    pub(crate) fn line(&self) -> String {
        format!("certificate {} expires at {}", self.shown(), rfc3339(self.not_after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    fn served(life_days: u64) -> ServedCertificate {
        let hosts = (0..7).map(|index| format!("{index}.test")).collect();
        ServedCertificate {
            name: "a.pem".to_owned(),
            hosts,
            not_before: DAY,
            not_after: DAY + life_days * DAY,
        }
    }

    #[test]
    fn a_certificate_is_due_in_its_last_third_and_at_most_30_days_before_its_end() {
        for (life, due_days) in [(6, 2), (90, 30), (365, 30)] {
            let certificate = served(life);
            let at = |seconds: u64| Timestamp::from_second(seconds.try_into().unwrap()).unwrap();
            let begin = certificate.not_after - due_days * DAY;
            assert_eq!(certificate.due(at(begin)), None, "{life}");
            let text = certificate.due(at(begin + 1)).unwrap();
            assert!(
                text.contains("expires at") && text.ends_with(&format!(", in {} days", due_days - 1)),
                "{text}"
            );
            assert!(certificate.due(at(certificate.not_after + 1)).unwrap().contains(" expired at "));
            assert!(
                certificate.due(at(DAY - 1)).unwrap().ends_with("is valid only from 1970-01-02T00:00:00Z")
            );
        }
    }

    #[test]
    fn a_line_names_the_file_and_few_hosts() {
        let expected = "certificate a.pem (0.test, 1.test, 2.test, 3.test, 4.test, 2 more) expires at \
                        1970-01-08T00:00:00Z";
        assert_eq!(served(6).line(), expected);
    }
}
