//! Passes the events of the reader to the validator.

use tollgate_relaxng::{Attribute, Invalid, Schema, Start, Validator};
use tollgate_xml::{Attributes, Events, Name, Stop};

use crate::scopes::Scopes;
use crate::work::{self, Allowance};

/// Number of attributes of an element whose list needs no memory of its own.
const ATTRIBUTES_FEW: usize = 16;

/// Receives the events of a document, and stops the reader at the first fault.
#[derive(Debug)]
pub(crate) struct Judge {
    validator: Validator,
    scopes: Scopes,
    allowance: Allowance,
    fault: Option<Box<Invalid>>,
}

impl Judge {
    pub(crate) fn new(schema: &Schema) -> Self {
        let mut validator = Validator::new(schema);
        let allowance = Allowance::new(work::base(schema.compiled()));
        validator.set_work_max(allowance.max);
        Self { validator, scopes: Scopes::default(), allowance, fault: None }
    }

    /// Allows the work of more bytes.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.allowance.grow(self.validator.work(), bytes);
        self.validator.set_work_max(self.allowance.max);
    }

    /// Returns the bytes of text that the validator holds.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.validator.held_bytes()
    }

    /// Returns the fault that stopped the reader.
    pub(crate) fn fault(&self) -> Option<&Invalid> {
        self.fault.as_deref()
    }

    fn or_stop(&mut self, judged: Result<(), Invalid>) -> Result<(), Stop> {
        judged.map_err(|invalid| {
            self.fault = Some(Box::new(invalid));
            Stop
        })
    }
}

impl Events for Judge {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        self.scopes.enter(attributes);
        let each = attributes.iter().map(|attribute| Attribute {
            namespace: attribute.name.uri,
            local: attribute.name.local,
            value: attribute.value,
        });
        let mut few = [Attribute { namespace: "", local: "", value: "" }; ATTRIBUTES_FEW];
        let many: Vec<_>;
        let list = if attributes.len() <= ATTRIBUTES_FEW {
            few.iter_mut().zip(each).for_each(|(place, attribute)| *place = attribute);
            &few[..attributes.len()]
        } else {
            many = each.collect();
            &many
        };
        // The reader knows the place of the event.
        let start = Start {
            namespace: name.uri,
            local: name.local,
            attributes: list,
            namespaces: &self.scopes,
            byte: 0,
        };
        let judged = self.validator.start(&start);
        self.or_stop(judged)
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        let judged = self.validator.text(text, 0);
        self.or_stop(judged)
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        let judged = self.validator.end(&self.scopes, 0);
        self.scopes.leave();
        self.or_stop(judged)
    }
}
