//! The parts of a running server.

use tollgate_log::Log;
use tollgate_server::Server;

use crate::access_log::AccessWriter;
use crate::acme::AcmeCertificates;
use crate::control::Control;
use crate::destinations::Destinations;
use crate::otlp::SpanExporter;

/// The parts that a reload or an upgrade changes.
pub(super) struct Running<'a> {
    pub(super) server: &'a Server,
    pub(super) log: &'a Log,
    pub(super) control: &'a mut Option<Control>,
    pub(super) destinations: &'a mut Destinations,
    pub(super) certificates: &'a mut AcmeCertificates,
    pub(super) access: &'a mut AccessWriter,
    pub(super) spans: &'a mut SpanExporter,
}
