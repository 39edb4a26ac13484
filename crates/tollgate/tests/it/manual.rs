//! Completions of shells and manual pages: other programs read them without a complaint.

use std::fs;
use std::process::Command;

use crate::program::App;

/// Completes the last word in bash, and prints the words that it offers.
const COMPLETE: &str = "source ./tollgate.bash; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                        _tollgate tollgate \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                        echo \"${COMPREPLY[@]}\"";

/// Runs a program that must succeed without a line on stderr.
fn output(app: &App, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(app.path()).output();
    let output =
        output.unwrap_or_else(|error| panic!("cannot run {program}: {error}: `make tools` installs it"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{program} {arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bash_completes_commands_and_options_by_the_printed_completions() {
    let app = App::bare(&[]);
    app.write("tollgate.bash", &app.succeed(&["completions", "bash"]));
    output(&app, "bash", &["-n", "tollgate.bash"]);
    for (typed, offered) in
        [("tollgate lo", "load log"), ("tollgate log v", "verify"), ("tollgate status --w", "--watch --web")]
    {
        assert_eq!(output(&app, "bash", &["-c", COMPLETE, "bash", typed]).trim_end(), offered, "{typed}");
    }
    let fish = app.succeed(&["completions", "fish"]);
    assert!(fish.starts_with("# Print an optspec") && fish.contains("-a \"serve\""), "{fish}");
    assert!(app.succeed(&["completions", "zsh"]).starts_with("#compdef tollgate\n"));
}

#[test]
fn groff_formats_each_manual_page_without_a_warning() {
    let app = App::bare(&[]);
    let written = app.succeed(&["man", "pages"]);
    let pages: Vec<_> = fs::read_dir(app.path().join("pages")).unwrap().map(|page| page.unwrap()).collect();
    assert_eq!(written, format!("wrote {} pages to pages\n", pages.len()));
    assert!(pages.len() > 30, "{}", pages.len());
    for page in pages {
        let name = page.path().display().to_string();
        let text = output(&app, "groff", &["-man", "-Tutf8", "-ww", "-P-cbou", &name]);
        for section in ["NAME", "SYNOPSIS", "EXAMPLES", "EXIT STATUS"] {
            assert!(text.lines().any(|line| line == section), "{section} is not in {name}: {text}");
        }
    }
    let cat = output(&app, "groff", &["-man", "-Tutf8", "-P-cbou", "pages/tollgate-log-cat.1"]);
    assert!(
        cat.contains("tollgate log cat --since 1h --format text  print the records of the last hour"),
        "{cat}"
    );
}
