//! Loaded scripts, as routes hold them: each leads to the script in the VM of this moment.

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

/// A loaded script. When its host replaces the VM, the script moves to the new VM. Calls stay in the VM that
/// they began in.
#[derive(Clone)]
pub struct LoadedScript(pub(crate) Rc<ScriptSlot>);

/// The place of a script in its host, which leads to the VM of this moment.
pub(crate) struct ScriptSlot {
    /// None: the script cannot be loaded again.
    pub(crate) origin: Option<ScriptOrigin>,
    pub(crate) script: RefCell<Rc<Script>>,
}

/// The files that a script is loaded from, and the record fields of its route.
pub(crate) struct ScriptOrigin {
    pub(crate) file: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) fields: RecordFields,
}

impl LoadedScript {
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
