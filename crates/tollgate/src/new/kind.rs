//! The kinds of apps that `tollgate new` makes: their files, and a command that makes the first row.

use crate::cli::AppKind;

/// The types of a script's globals, as a definition file.
pub(crate) const TYPES: &str = include_str!("tollgate.d.luau");

/// A file by its name in the folder, and its text.
pub(super) type AppFile = (&'static str, &'static str);

/// Returns the files of an app, without those that every app has.
pub(super) const fn files(kind: AppKind) -> &'static [AppFile] {
    match kind {
        AppKind::Api => &[
            ("app.toml", include_str!("api/app.toml")),
            ("score.luau", include_str!("api/score.luau")),
            ("tests/score.luau", include_str!("api/score_test.luau")),
            ("public/index.html", include_str!("api/index.html")),
            ("README.md", include_str!("api/README.md")),
        ],
        AppKind::Collect => &[
            ("app.toml", include_str!("collect/app.toml")),
            ("tests/events.luau", include_str!("collect/events_test.luau")),
            ("README.md", include_str!("collect/README.md")),
        ],
        AppKind::Webhook => &[
            ("app.toml", include_str!("webhook/app.toml")),
            ("github.luau", include_str!("webhook/github.luau")),
            ("tests/github.luau", include_str!("webhook/github_test.luau")),
            ("deliver.sh", include_str!("webhook/deliver.sh")),
            ("README.md", include_str!("webhook/README.md")),
        ],
        AppKind::Site => &[
            ("app.toml", include_str!("site/app.toml")),
            ("contact.luau", include_str!("site/contact.luau")),
            ("tests/contact.luau", include_str!("site/contact_test.luau")),
            ("public/index.html", include_str!("site/index.html")),
            ("README.md", include_str!("site/README.md")),
        ],
    }
}

/// Returns a command that makes the first row while the app in `folder` is served. `folder` is a word of a
/// shell.
pub(super) fn first_request(kind: AppKind, folder: &str) -> String {
    match kind {
        AppKind::Api => "curl 'http://127.0.0.1:8080/api/score?x=20'".to_owned(),
        AppKind::Collect => "curl http://127.0.0.1:8080/events -H 'Content-Type: application/json' \
                             -d '[{\"id\":\"1\",\"kind\":\"start\",\"value\":2.5}]'"
            .to_owned(),
        AppKind::Webhook => format!("sh {}/deliver.sh", folder.trim_end_matches('/')),
        AppKind::Site => "curl http://127.0.0.1:8080/contact -d 'name=Anna&text=Hello'".to_owned(),
    }
}
