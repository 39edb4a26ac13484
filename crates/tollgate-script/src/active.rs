//! The request of the running call, for the functions of the API.

use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use mlua::Table;

use crate::emitted::{Emissions, Emitted};
use crate::form_parts::PartReader;
use crate::reach::Reach;
use crate::request::Request;
use crate::stretch::BodyReadError;
use crate::xml_elements::ElementReader;

/// The request of a call, while that call runs.
pub(crate) struct Active {
    pub(crate) request: Rc<Request>,
    /// The address of the `req` of the call. The coroutine of the call keeps `req` alive.
    pub(crate) req: *const c_void,
    pub(crate) reach: Rc<Reach>,
    /// The form that the call reads part by part.
    pub(crate) parts: Option<Box<OpenForm>>,
    /// The XML body whose elements the call reads one by one.
    pub(crate) elements: Option<OpenElements>,
    /// The records that the call emitted. `None` once the handler has returned and the call writes content.
    pub(crate) emissions: Option<Emissions>,
    /// Status and reason of the reply that the client gets if the last raised error ends the call.
    pub(crate) refusal: Option<Box<(u16, String)>>,
}

impl Active {
    pub(crate) fn new(request: Rc<Request>, req: *const c_void, reach: &Rc<Reach>) -> Self {
        let emissions = Some(Emissions::default());
        Self { request, req, reach: Rc::clone(reach), parts: None, elements: None, emissions, refusal: None }
    }

    /// Returns the records that the call emitted so far. After this function the call cannot emit records.
    pub(crate) fn take_emitted(&mut self) -> Vec<Emitted> {
        self.emissions.take().map(|emissions| emissions.records).unwrap_or_default()
    }
}

/// Holds the request of the running call.
pub(crate) type ActiveCell = RefCell<Option<Active>>;

/// A form that a call reads part by part.
pub(crate) struct OpenForm {
    /// `None` while a thread uses the reader.
    pub(crate) reader: Option<Box<PartReader>>,
    /// The part that the script reads now.
    pub(crate) current: Option<Table>,
}

/// An XML body whose elements a call reads one by one.
pub(crate) struct OpenElements {
    /// `None` while a thread uses the reader.
    pub(crate) reader: Option<Box<ElementReader>>,
}

/// Converts a failure to an error of Luau. A failure of the client decides the status of the reply, unless
/// the script catches the error.
pub(crate) fn raised(cell: &ActiveCell, fault: BodyReadError) -> mlua::Error {
    match fault {
        BodyReadError::Disk(error) => mlua::Error::runtime(format!("the disk failed: {error}")),
        BodyReadError::Client(status, reason) => {
            if let Some(active) = cell.borrow_mut().as_mut() {
                active.refusal = Some(Box::new((status, reason.clone())));
            }
            mlua::Error::runtime(reason)
        }
    }
}

/// Calls `f` with the request of the running call.
///
/// # Errors
/// `req` belongs to another call.
pub(crate) fn with_active<R>(
    cell: &ActiveCell,
    req: &Table,
    f: impl FnOnce(&mut Active) -> mlua::Result<R>,
) -> mlua::Result<R> {
    match cell.borrow_mut().as_mut() {
        Some(active) if active.req == req.to_pointer() => f(active),
        _ => {
            Err(mlua::Error::runtime("this req belongs to another call: use it only while its handler runs"))
        }
    }
}
