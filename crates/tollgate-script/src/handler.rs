//! Handlers: loaded scripts as the server holds them, in whatever VM they are now.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use tollgate_http::{Method, Methods};

use crate::call::Call;
use crate::reach::{Reach, Role};
use crate::record::RecordFields;
use crate::reply::Replied;
use crate::request::Request;
use crate::script::{Script, Shape};

/// A loaded script. A VM that takes the place of another takes over its handlers; calls stay with the one that they began in.
#[derive(Clone)]
pub struct Handler(pub(crate) Rc<Slot>);

/// Where a script is found, whatever VM it is in now.
pub(crate) struct Slot {
    /// None: it cannot be loaded again.
    pub(crate) origin: Option<Origin>,
    pub(crate) script: RefCell<Rc<Script>>,
}

/// What a script is loaded from.
pub(crate) struct Origin {
    pub(crate) file: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) fields: RecordFields,
}

impl Handler {
    /// Returns the methods that the script answers: `None` is every one. GET brings HEAD with it.
    pub fn methods(&self) -> Option<Methods> {
        let script = self.0.script.borrow();
        let Shape::ByMethod(functions) = &script.shape else { return None };
        let mut methods = Methods::default();
        for (method, _) in functions {
            methods.insert(*method);
            if *method == Method::Get {
                methods.insert(Method::Head);
            }
        }
        Some(methods)
    }

    /// Has it play another role. Only of a handler that was not called yet.
    #[must_use]
    pub fn playing(self, role: Role) -> Self {
        if let Some(script) = Rc::get_mut(&mut self.0.script.borrow_mut()) {
            script.role = role;
        }
        self
    }

    /// Whether it has a function for a method.
    pub fn takes(&self, method: Method) -> bool {
        self.0.script.borrow().function(method).is_some()
    }

    /// Lets its calls reach what they may. Only of a handler that was not called yet.
    #[must_use]
    pub fn reaching(self, reach: Reach) -> Self {
        if let Some(script) = Rc::get_mut(&mut self.0.script.borrow_mut()) {
            script.reach = Rc::new(reach);
        }
        self
    }

    fn script(&self) -> Rc<Script> {
        Rc::clone(&self.0.script.borrow())
    }

    /// Begins a call; nothing runs before [`Call::resume`].
    pub fn call(&self, request: Rc<Request>) -> Call {
        Call::new(self.script(), request, None)
    }

    /// Begins a call that is told a reply.
    pub fn call_after(&self, request: Rc<Request>, replied: Replied) -> Call {
        Call::new(self.script(), request, Some(Box::new(replied)))
    }
}
