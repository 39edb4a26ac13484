//! The path of a request and its record as eight boxes, each with two figures and its state.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::figures::{count, duration, number, text};
use super::fit::fitting;
use crate::colour::Tone;

/// Columns inside of a box.
const WIDTH: usize = 11;
/// Columns of a box with its border and the arrow after it.
const STEP: usize = WIDTH + 3;
/// Boxes in a row, by the width of the terminal.
const IN_ROW: [usize; 4] = [8, 4, 2, 1];
/// A part of `connections_max` above which the server closes idle connections earlier.
const CROWDED: f64 = 0.8;

/// The characters of borders and arrows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Border {
    corners: [char; 4],
    line: char,
    side: char,
    arrow: char,
}

/// Characters of Unicode.
pub(super) const DRAWN: Border =
    Border { corners: ['┌', '┐', '└', '┘'], line: '─', side: '│', arrow: '→' };
/// Characters that each terminal has.
pub(super) const ASCII: Border = Border { corners: ['+'; 4], line: '-', side: '|', arrow: '>' };

/// One part of the path. A figure begins with its number, because the end may be cut.
struct PathBox {
    title: &'static str,
    figures: [String; 2],
    state: String,
    tone: Tone,
    /// Whether the next box gets what leaves this box.
    has_arrow: bool,
}

impl PathBox {
    fn new(title: &'static str, figures: [String; 2], (state, tone): (String, Tone)) -> Self {
        Self { title, figures, state, tone, has_arrow: title != "sink" && title != "backends" }
    }

    fn lines(&self, border: &Border, is_coloured: bool) -> [String; 5] {
        let Border { corners: [left_top, right_top, left_bottom, right_bottom], line, side, arrow } = border;
        let dashes = |count: usize| line.to_string().repeat(count);
        let padded = |text: &str| {
            let text = fitting(text, WIDTH);
            (text.to_owned(), " ".repeat(WIDTH.saturating_sub(text.width())))
        };
        let inside = |text: &str| {
            let (text, space) = padded(text);
            format!("{side}{text}{space}{side} ")
        };
        let after = if self.has_arrow { *arrow } else { ' ' };
        let (state, space) = padded(&self.state);
        let state = if is_coloured { self.tone.paint(&state) } else { state };
        let title_end = dashes(WIDTH.saturating_sub(self.title.len()));
        [
            format!("{left_top}{}{title_end}{right_top} ", self.title),
            inside(&self.figures[0]),
            inside(&self.figures[1]).trim_end_matches(' ').to_owned() + &after.to_string(),
            format!("{side}{state}{space}{side} "),
            format!("{left_bottom}{}{right_bottom} ", dashes(WIDTH)),
        ]
    }
}

/// Returns the boxes of a server's status in lines of at most `columns`. A status of another process has no
/// boxes.
pub(super) fn path(document: &Value, columns: usize, border: &Border, is_coloured: bool) -> Vec<String> {
    if document["rates"].is_null() || ["fetch", "topics"].iter().any(|source| !document[source].is_null()) {
        return Vec::new();
    }
    let boxes = boxes(document);
    let in_row = IN_ROW.into_iter().find(|count| count * STEP <= columns).unwrap_or(1);
    let mut lines = Vec::new();
    for row in boxes.chunks(in_row) {
        let drawn: Vec<_> = row.iter().map(|part| part.lines(border, is_coloured)).collect();
        lines.extend((0..5).map(|at| drawn.iter().map(|part| part[at].as_str()).collect::<String>()));
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

fn boxes(document: &Value) -> [PathBox; 8] {
    let rates = &document["rates"];
    let per_second = |key: &str| format!("{}/s", count(&rates[key]));
    let is_some = |key: &str| number(&rates[key]) > 0.0;
    let connections = &document["connections"];
    let (now, max) = (number(&connections["now"]), number(&connections["max"]));
    let latency = document["latency"]["p99_seconds"].as_f64().map_or_else(|| "-".to_owned(), duration);
    [
        PathBox::new("listen", [per_second("connections") + " new", String::new()], phase(document)),
        PathBox::new(
            "connections",
            [format!("{} open", count(&connections["now"])), format!("of {}", count(&connections["max"]))],
            warn_if(now > max * CROWDED, "crowded"),
        ),
        PathBox::new(
            "route",
            [per_second("requests"), per_second("refusals") + " refused"],
            warn_if(is_some("refusals"), "refuses"),
        ),
        PathBox::new(
            "handler",
            [latency + " p99", per_second("failures") + " 5xx"],
            warn_if(is_some("failures"), "fails"),
        ),
        log(document),
        load(document),
        sink(document),
        backends(document),
    ]
}

fn well() -> (String, Tone) {
    ("ok".to_owned(), Tone::Good)
}

fn warn_if(is_so: bool, state: &str) -> (String, Tone) {
    if is_so { (state.to_owned(), Tone::Warning) } else { well() }
}

fn phase(document: &Value) -> (String, Tone) {
    match text(&document["phase"]) {
        phase if phase == "serving" => well(),
        phase => (phase, Tone::Warning),
    }
}

fn log(document: &Value) -> PathBox {
    let (log, rates) = (&document["log"], &document["rates"]);
    if log.is_null() {
        return PathBox::new("log", Default::default(), ("none".to_owned(), Tone::Good));
    }
    let sync = document["latency"]["sync"]["p99_seconds"].as_f64().map_or_else(|| "-".to_owned(), duration);
    let is = |key: &str| log[key].as_bool().unwrap_or_default();
    let state = match () {
        () if !log["failure"].is_null() => ("FAILED".to_owned(), Tone::Bad),
        () if is("is_short_of_room") => ("disk full".to_owned(), Tone::Bad),
        () if is("is_behind") => ("behind".to_owned(), Tone::Warning),
        () => well(),
    };
    PathBox::new("log", [count(&rates["records"]) + "/s records", sync + " sync"], state)
}

fn sinks(document: &Value) -> impl Iterator<Item = &Value> {
    document["sinks"].as_array().into_iter().flatten()
}

fn load(document: &Value) -> PathBox {
    let lag = sinks(document).map(|sink| number(&sink["lag_seconds"])).fold(0.0, f64::max);
    let rows = count(&document["rates"]["rows"]) + "/s rows";
    let state = match sinks(document).next() {
        None => ("no sink".to_owned(), Tone::Good),
        Some(_) => warn_if(has_warning(document, "sink_behind"), "behind"),
    };
    PathBox::new("load", [rows, duration(lag) + " lag"], state)
}

fn sink(document: &Value) -> PathBox {
    let rejects: f64 = sinks(document).map(|sink| number(&sink["rejects"])).sum();
    let unwell = sinks(document).find(|sink| !sink["last_error"].is_null());
    let names: Vec<_> = sinks(document).map(|sink| text(&sink["sink"])).collect();
    let name = match (unwell, &names[..]) {
        (Some(sink), _) => text(&sink["sink"]),
        (None, [name]) => name.clone(),
        (None, names) => format!("{} sinks", names.len()),
    };
    let state = unwell.map_or_else(well, |sink| (text(&sink["state"]), Tone::Bad));
    PathBox::new("sink", [name, format!("{} rejects", count(&Value::from(rejects)))], state)
}

fn backends(document: &Value) -> PathBox {
    let all: Vec<_> = document["backends"].as_array().into_iter().flatten().collect();
    if all.is_empty() {
        return PathBox::new("backends", Default::default(), ("none".to_owned(), Tone::Good));
    }
    let is_up = |backend: &&&Value| {
        let addresses = backend["addresses"].as_array();
        let is_reached = |address: &Value| address["state"] != "unreachable";
        backend["breaker"] == "closed" && addresses.is_some_and(|all| all.iter().any(is_reached))
    };
    let up = all.iter().filter(is_up).count();
    let in_flight: f64 = all.iter().map(|backend| number(&backend["in_flight"])).sum();
    let state = if up == all.len() { well() } else { (format!("{} down", all.len() - up), Tone::Bad) };
    let in_flight = format!("{} running", count(&Value::from(in_flight)));
    PathBox::new("backends", [format!("{up} of {} up", all.len()), in_flight], state)
}

fn has_warning(document: &Value, code: &str) -> bool {
    document["warnings"].as_array().into_iter().flatten().any(|warning| warning["code"] == code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({
            "phase": "serving",
            "rates": { "connections": 17, "requests": 1200, "refusals": 0, "failures": 0.8, "records": 14,
                       "rows": 12 },
            "latency": { "p99_seconds": 0.0022, "sync": { "p99_seconds": 0.00045 } },
            "connections": { "now": 3, "max": 14548 },
            "log": { "failure": null, "is_behind": false, "is_short_of_room": true },
            "sinks": [{ "sink": "main", "state": "retrying", "lag_seconds": 3.5, "rejects": 2,
                        "last_error": "locked" }],
            "backends": [],
            "warnings": [{ "code": "sink_behind" }],
        })
    }

    #[test]
    fn eight_boxes_fold_into_the_columns_of_the_terminal() {
        for (columns, lines) in
            [(120, 5), (112, 5), (111, 10), (60, 10), (56, 10), (55, 20), (20, 40), (5, 40)]
        {
            let drawn = path(&document(), columns, &DRAWN, false);
            assert_eq!(drawn.len(), lines, "{columns}");
            let width = drawn.iter().map(|line| line.width()).max().unwrap();
            assert!(width <= columns.max(STEP), "{columns}: {width}");
        }
    }

    #[test]
    fn a_box_has_its_figures_and_its_state() {
        let drawn = path(&document(), 60, &ASCII, false);
        assert_eq!(
            drawn,
            [
                "+listen-----+ +connections+ +route------+ +handler----+",
                "|17/s new   | |3 open     | |1 200/s    | |2.2 ms p99 |",
                "|           |>|of 14 548  |>|0/s refused|>|0.8/s 5xx  |>",
                "|ok         | |ok         | |ok         | |fails      |",
                "+-----------+ +-----------+ +-----------+ +-----------+",
                "+log--------+ +load-------+ +sink-------+ +backends---+",
                "|14/s record| |12/s rows  | |main       | |           |",
                "|450 us sync|>|3.5 s lag  |>|2 rejects  | |           |",
                "|disk full  | |behind     | |retrying   | |none       |",
                "+-----------+ +-----------+ +-----------+ +-----------+",
            ]
        );
    }

    #[test]
    fn a_state_has_a_colour_and_a_word() {
        let drawn = path(&document(), 60, &ASCII, true);
        assert!(drawn[8].starts_with("|\u{1b}[1;31mdisk full\u{1b}[0m  |"), "{}", drawn[8]);
        assert!(drawn[3].starts_with("|\u{1b}[1;32mok\u{1b}[0m         |"), "{}", drawn[3]);
    }
}
