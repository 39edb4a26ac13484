//! The end of each help: examples and exit codes. The tests parse each example.

use clap::Command;

/// The examples and the exit codes of one command.
struct Help {
    /// The names of the command, without `tollgate`.
    command: &'static str,
    /// Lines with an example, two blanks or more, and its effect.
    examples: &'static str,
    codes: &'static str,
}

const USUAL: &str = "0 done, 1 failed, 2 wrong usage or configuration";

const HELPS: &[Help] = &[
    Help {
        command: "",
        examples: "\
tollgate new shop                    make a small app with tests
tollgate serve                       serve ./tollgate.toml, or ./routes without it
tollgate serve shop/                 serve the app in a folder
tollgate serve --https shop/         serve it with TLS too, on https://localhost:8443
tollgate serve --dev shop/           serve it, reload after each change, show errors in replies
tollgate reload                      make the running server reload its configuration
tollgate upgrade                     make the running server start its new program, without a gap
tollgate check --types shop/         check the configuration, and the types of scripts
tollgate check --print               print the whole configuration, with defaults
tollgate check --sample body.json    show which rows and rejects a captured body would make
tollgate test shop/                  run the tests in shop/tests/*.luau
tollgate load --once                 load all records into the database, then end
tollgate ship --to /mnt/handover     copy all sealed segments to a folder, then end
tollgate log cat --stream scores     print the records of a stream as JSON lines
tollgate log tail                    follow the records of a running server
tollgate log verify data/log         check all checksums and digests of a log
tollgate sql \"SELECT count(*) FROM requests\"
tollgate status --watch              show the state, and what to do, each second
tollgate status --web                show the state in a browser on this machine
tollgate auth password anna >>users  add a user to a password file
tollgate audit                       check that the database has every record
tollgate audit --store /mnt/handover  count the records of this side of a hand-over
tollgate cert ls                     list the certificates, and when each one is renewed",
        codes: USUAL,
    },
    Help {
        command: "new",
        examples: "\
tollgate new shop            make an app with a script and a page in the new folder shop
tollgate new --collect shop  make an app that takes events
tollgate new --webhook shop  make an app that receives signed webhooks
tollgate new --site shop     make a page with a form",
        codes: "0 done, 1 a file cannot be written, 2 the folder is not empty",
    },
    Help {
        command: "serve",
        examples: "\
tollgate serve                                serve the configuration in this folder
tollgate serve /etc/tollgate/tollgate.toml    serve this configuration
tollgate serve --listen 127.0.0.1:9000 shop/  serve an app on another address
tollgate serve --dev shop/                    reload after each change",
        codes: "0 stopped by a signal, 1 an address or the log failed, 2 wrong usage or configuration",
    },
    Help {
        command: "reload",
        examples: "\
tollgate reload                             reload the server of this folder
tollgate reload /etc/tollgate               reload the server of this configuration",
        codes: "0 reloaded, 1 no server answered, 2 refused: nothing changed",
    },
    Help {
        command: "upgrade",
        examples: "\
tollgate upgrade                               start the installed program again, after its file changed
tollgate upgrade ./tollgate                    start another program for the server of this folder
tollgate upgrade --config /etc/tollgate        start the installed program of this configuration",
        codes: "0 the new program serves, 1 refused or no server answered, 2 wrong usage or configuration",
    },
    Help {
        command: "check",
        examples: "\
tollgate check --types shop/                 also check the types of scripts
tollgate check --print >whole.toml           print each key with its value or default
tollgate check --sinks                       also compare the streams with their tables
tollgate check --sample body.json --route /take  show the rows of a captured body",
        codes: "0 no fault, 1 a store or a database failed, 2 a fault of the configuration or of a script",
    },
    Help {
        command: "test",
        examples: "\
tollgate test shop/                 run the tests in shop/tests/*.luau
tollgate test --filter score        run only tests with this text in their names
tollgate test --watch               run them again after each change",
        codes: "0 all passed, 1 a test failed, 2 a file cannot be run, or there is no test",
    },
    Help {
        command: "load",
        examples: "\
tollgate load                                    load until a signal
tollgate load --once --sink main                 load all records into one sink, then end
tollgate load --from /mnt/handover --once        load what other machines shipped
tollgate load --retry-rejects                    try the rejects again",
        codes: "0 all is loaded, 1 stopped, or records are missing, 2 wrong usage or configuration",
    },
    Help {
        command: "ship",
        examples: "\
tollgate ship --to /mnt/handover             copy all sealed segments to a folder
tollgate ship --to s3://bucket/prefix --dry-run  print which segments the store lacks",
        codes: "0 the store has all segments, 1 a segment was not shipped, 2 wrong usage or configuration",
    },
    Help {
        command: "ship init",
        examples: "tollgate ship init /mnt/volume   make the mounted disk a volume",
        codes: USUAL,
    },
    Help {
        command: "ship state",
        examples: "tollgate ship state /mnt/volume  print the state of the volume",
        codes: USUAL,
    },
    Help {
        command: "ship close",
        examples: "tollgate ship close /mnt/volume  let the volume be moved now",
        codes: USUAL,
    },
    Help {
        command: "ship accept",
        examples: "tollgate ship accept answers.report --ship disks  accept the report of the other machine",
        codes: USUAL,
    },
    Help {
        command: "ship forget",
        examples: "tollgate ship forget 00112233445566778899aabbccddeeff  send its segments again",
        codes: USUAL,
    },
    Help {
        command: "ship cost",
        examples: "tollgate ship cost  print the price of a month at the present rate",
        codes: USUAL,
    },
    Help {
        command: "ship policy",
        examples: "\
tollgate ship policy         print the rights of this machine
tollgate ship policy --load  print the rights of a machine that loads",
        codes: USUAL,
    },
    Help {
        command: "log",
        examples: "\
tollgate log ls                      list the logs of this folder
tollgate log tail -n 100             follow the records, from the last hundred on
tollgate log verify                  check all segments",
        codes: "0 done, 1 failed or damaged, 2 wrong usage or configuration",
    },
    Help {
        command: "log ls",
        examples: "tollgate log ls data/log  list the segments of a log folder",
        codes: USUAL,
    },
    Help {
        command: "log cat",
        examples: "\
tollgate log cat --stream scores           print the records of a stream as JSON lines
tollgate log cat --since 1h --format text  print the records of the last hour
tollgate log cat --position done.txt       continue where the last run ended",
        codes: "0 done, 1 a log cannot be read, 2 wrong usage or configuration",
    },
    Help {
        command: "log tail",
        examples: "\
tollgate log tail                            follow all records
tollgate log tail --stream scores -n 0       print only new records of a stream",
        codes: "0 the reader closed the pipe, 1 a log cannot be read, 2 wrong usage or configuration",
    },
    Help {
        command: "log verify",
        examples: "tollgate log verify data/log  check all checksums, chains and digests",
        codes: "0 all segments are intact, 1 damage was found, 2 wrong usage or configuration",
    },
    Help {
        command: "log accept",
        examples: "tollgate log accept data/log/7/1.damaged  stop reporting this damage",
        codes: USUAL,
    },
    Help {
        command: "log dump",
        examples: "tollgate log dump data/log/7/1.sealed  show each field of a segment",
        codes: "0 intact, 1 damaged or unreadable, 2 wrong usage",
    },
    Help {
        command: "log repair",
        examples: "\
tollgate log repair --dry-run  print what a repair would do
tollgate log repair            repair the logs of servers that were killed",
        codes: "0 repaired, 1 a log cannot be repaired, 2 wrong usage or configuration",
    },
    Help {
        command: "sql",
        examples: "\
tollgate sql \"SELECT count(*) FROM requests\"
tollgate sql --format csv \"SELECT * FROM scores\" >scores.csv
tollgate sql --sink main --config /etc/tollgate \"SELECT 1\"",
        codes: "0 done, 1 the database refused the statement, 2 wrong usage or configuration",
    },
    Help {
        command: "status",
        examples: "\
tollgate status                     show the state once
tollgate status --watch             show it each second, until q
tollgate status --web               show it in a browser on this machine
tollgate status --json              print it as one line of JSON
tollgate status --exit-code         end with the state as the exit code",
        codes: "0 a server answered, 1 none did, 2 wrong usage. \
                With --exit-code: 0 well, 1 warnings, 2 not ready, 3 no server answered",
    },
    Help {
        command: "audit",
        examples: "\
tollgate audit                          compare the log with each database
tollgate audit --store /mnt/handover    count this side of a hand-over
tollgate audit --json                   print one object per line",
        codes: "0 no record is missing, 1 one is, or was not counted, 2 wrong usage or configuration",
    },
    Help {
        command: "cert",
        examples: "tollgate cert ls  list the certificates, and when each one is renewed",
        codes: USUAL,
    },
    Help {
        command: "cert ls",
        examples: "tollgate cert ls /etc/tollgate  list the certificates",
        codes: USUAL,
    },
    Help {
        command: "cert renew",
        examples: "\
tollgate cert renew                order all certificates again
tollgate cert renew www.example.org  order one certificate again",
        codes: USUAL,
    },
    Help {
        command: "cert local",
        examples: "tollgate cert local shop.test  make a certificate for localhost and shop.test",
        codes: USUAL,
    },
    Help {
        command: "auth",
        examples: "tollgate auth token reporter >>tokens  add a caller to a token file",
        codes: USUAL,
    },
    Help {
        command: "auth password",
        examples: "tollgate auth password anna >>users  add a user to a password file",
        codes: USUAL,
    },
    Help {
        command: "auth token",
        examples: "tollgate auth token reporter >>tokens  add a caller to a token file",
        codes: USUAL,
    },
    Help {
        command: "completions",
        examples: "\
tollgate completions bash >/etc/bash_completion.d/tollgate  complete commands in bash
tollgate completions zsh >_tollgate                         complete commands in zsh
tollgate completions fish >tollgate.fish                    complete commands in fish",
        codes: USUAL,
    },
    Help {
        command: "man",
        examples: "tollgate man /usr/local/share/man/man1  write the pages of all commands",
        codes: USUAL,
    },
];

/// Returns the examples and the exit codes of the command with a manual page, such as `tollgate-log-cat`.
pub(crate) fn of_page(page: &str) -> Option<(&'static str, &'static str)> {
    let is_named = |help: &&Help| format!("tollgate {}", help.command).trim().replace(' ', "-") == page;
    HELPS.iter().find(is_named).map(|help| (help.examples, help.codes))
}

/// Adds the examples and the exit codes to a command and the commands below it.
pub(super) fn with_ends(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, path: &str) -> Command {
    let names: Vec<_> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = match HELPS.iter().find(|help| help.command == path) {
        Some(help) => command.after_help(help.end()),
        None => command,
    };
    names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}").trim().to_owned();
        command.mut_subcommand(&name, |sub| below(sub, &path))
    })
}

impl Help {
    fn end(&self) -> String {
        let examples: Vec<_> = self.examples.lines().map(|line| format!("  {line}\n")).collect();
        format!("Examples:\n{}\nExit codes: {}.", examples.concat(), self.codes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    /// Calls `check` with each command and its names.
    fn each(command: &Command, path: &str, check: &mut impl FnMut(&Command, &str)) {
        check(command, path);
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            each(sub, format!("{path} {}", sub.get_name()).trim(), check);
        }
    }

    #[test]
    fn each_command_has_examples_and_exit_codes_in_its_help() {
        let mut known = Vec::new();
        each(&command(), "", &mut |command, path| {
            let help = command.clone().render_long_help().to_string();
            for part in ["Examples:\n  tollgate ", "Exit codes: 0 "] {
                assert!(help.contains(part), "tollgate {path}: no {part:?} in {help}");
            }
            known.push(path.to_owned());
        });
        let unknown: Vec<_> = HELPS.iter().filter(|help| !known.contains(&help.command.to_owned())).collect();
        assert!(unknown.is_empty(), "{:?}", unknown.iter().map(|help| help.command).collect::<Vec<_>>());
    }

    #[test]
    fn each_example_is_of_its_command_and_parses() {
        for help in HELPS {
            for line in help.examples.lines() {
                let words = words(line.split("  ").next().unwrap());
                let start: Vec<_> =
                    std::iter::once("tollgate").chain(help.command.split_whitespace()).collect();
                assert!(words.iter().map(String::as_str).take(start.len()).eq(start), "{line}");
                let parsed = command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    /// Splits a line as a shell does, up to a redirection.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (index, part) in line.split('"').enumerate() {
            match index % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words.into_iter().take_while(|word| !word.starts_with('>')).collect()
    }
}
