//! A start while a script changes.

use std::fs;

use crate::program::{App, Starting, eventually};

/// What the log has when a server serves.
const SERVING: &str = "\"message\":\"serving\"";

#[test]
fn a_start_loads_again_while_a_script_changes() {
    const LOADS_AGAIN: &str = "a script changed while the workers loaded it: they load it again";
    // Between the two files each worker computes, so that the workers read the second file at different times.
    let main = "local n = 0 for i = 1, 3e6 do n += i end
        local text = require('text')
        return function() return text end";
    let config =
        "workers = 8\n[script]\ncpu_budget = \"10s\"\n[[route]]\npath = \"/\"\nscript = \"main.luau\"\n";
    let app = App::new(config, &[("main.luau", main), ("text.luau", "return 'text 0'")]);
    eventually("a script changes while the workers load it", || {
        let mut starting = app.begin();
        let mut number = 0;
        let is_loaded =
            |starting: &Starting| starting.has_logged(LOADS_AGAIN) || starting.has_logged(SERVING);
        while !is_loaded(&starting) && !starting.has_ended() {
            number += 1;
            app.write("new.luau", &format!("return 'text {number}'"));
            fs::rename(app.path().join("new.luau"), app.path().join("text.luau")).unwrap();
        }
        let is_again = starting.has_logged(LOADS_AGAIN);
        let server = starting.serving().unwrap_or_else(|end| panic!("no start: {end:?}"));
        if is_again {
            let texts = (0..100).map(|_| server.connect().get("/").unwrap().content);
            let expected = format!("text {number}");
            assert_eq!(texts.filter(|text| *text != expected).next(), None);
        }
        assert!(server.stop().0.success());
        is_again.then_some(())
    });
}
