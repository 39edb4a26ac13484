//! Loaded scripts, as routes hold them: each leads to the script in the VM of this moment.

use std::cell::RefCell;
use std::rc::Rc;

use tollgate_http::{Method, Methods};

use crate::call::Call;
use crate::reply::Replied;
use crate::request::Request;
use crate::script::{Script, ScriptSource, Shape};

/// A loaded script. When its host replaces the VM, the script moves to the new VM. Calls stay in the VM that
/// they began in.
#[derive(Clone)]
pub struct LoadedScript(pub(crate) Rc<ScriptSlot>);

/// The place of a script in its host, which leads to the VM of this moment.
pub(crate) struct ScriptSlot {
    /// None: the script cannot be loaded again.
    pub(crate) source: Option<ScriptSource>,
    pub(crate) script: RefCell<Rc<Script>>,
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

    /// Whether it has a function for a method.
    pub fn takes(&self, method: Method) -> bool {
        self.0.script.borrow().function(method).is_some()
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
