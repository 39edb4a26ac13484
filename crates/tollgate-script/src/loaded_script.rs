//! Handles of loaded scripts, which routes hold. Each handle refers to the script in the current VM.

use std::cell::RefCell;
use std::rc::Rc;

use tollgate_http::{Method, Methods};

use crate::call::Call;
use crate::reply::Replied;
use crate::request::Request;
use crate::script::{Script, ScriptSource, Shape};

/// A loaded script. When the `Host` replaces the VM, the script moves to the new VM. Calls stay in the VM in
/// which they began.
#[derive(Clone)]
pub struct LoadedScript(pub(crate) Rc<ScriptSlot>);

/// A script of a `Host`. The slot refers to the script in the current VM.
pub(crate) struct ScriptSlot {
    /// `None` if the script cannot be loaded again.
    pub(crate) source: Option<ScriptSource>,
    pub(crate) script: RefCell<Rc<Script>>,
}

impl LoadedScript {
    /// Returns the methods that the script answers, or `None` for every method. GET includes HEAD.
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

    /// Returns whether the script has a function for a method.
    pub fn takes(&self, method: Method) -> bool {
        self.0.script.borrow().function(method).is_some()
    }

    fn script(&self) -> Rc<Script> {
        Rc::clone(&self.0.script.borrow())
    }

    /// Begins a call. No code runs before [`Call::resume`].
    pub fn call(&self, request: Rc<Request>) -> Call {
        Call::new(self.script(), request, None)
    }

    /// Begins a call of an `after` script, which gets the reply.
    pub fn call_after(&self, request: Rc<Request>, replied: Replied) -> Call {
        Call::new(self.script(), request, Some(Box::new(replied)))
    }
}
