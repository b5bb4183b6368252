//! What `top` and the demo show of a node: a table for each subject, for terminals of 80 columns and more.

pub(super) mod others;

use crate::observe::status::table::{Cell, Column, Mood, Paint, Table, clock, rate, size, span};
use crate::observe::status::view::{ClassView, CountsView, NodeView, TimesView, UplinkView};

/// What the far end of the demo measured for a class, printed beside the node's own figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndToEnd {
    /// The class.
    pub class: String,
    /// From the source's clock to the far end.
    pub times: TimesView,
}

/// By what rows are sorted; the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// As the node tells them: classes by urgency, streams as configured
    #[default]
    Given,
    /// By name
    Name,
    /// By what comes in
    In,
    /// By what waits
    Queue,
    /// By p99 of the last minute
    P99,
    /// By what was violated in the last minute
    Violated,
    /// By what was dropped since start
    Dropped,
}

impl Sort {
    /// What can be chosen, in this order.
    pub(super) const ALL: [Sort; 7] =
        [Sort::Given, Sort::Name, Sort::In, Sort::Queue, Sort::P99, Sort::Violated, Sort::Dropped];

    /// Sorts rows by what they are worth under it.
    fn sort<T>(self, rows: &mut [&T], name: impl Fn(&T) -> &str, worth: impl Fn(&T, Sort) -> f64) {
        match self {
            Sort::Given => {}
            Sort::Name => rows.sort_by(|a, b| name(a).cmp(name(b))),
            by => rows.sort_by(|a, b| worth(b, by).total_cmp(&worth(a, by))),
        }
    }
}

fn p99(p99_seconds: f64, count: u64, bound_seconds: f64) -> Mood {
    match count {
        0 => Mood::Plain,
        _ if p99_seconds <= bound_seconds => Mood::Good,
        _ => Mood::Bad,
    }
}

fn quantiles(count: u64, p50_seconds: f64, p99_seconds: f64) -> String {
    match count {
        0 => "-".into(),
        _ => format!("{} / {}", span(p50_seconds), span(p99_seconds)),
    }
}

fn dropped(counts: &CountsView) -> Cell {
    match counts.drops_in_words() {
        words if words.is_empty() => "0".into(),
        words => Cell::new(words, Mood::Warn),
    }
}

/// A line about the node, and one for each output, orchestrator and mirror that is not as it should be.
pub fn summary(view: &NodeView, width: usize, paint: Paint) -> String {
    let mut parts = vec![format!("{}  up {}", view.node, clock(view.uptime_seconds))];
    // Where no network is below, there is nothing to tell.
    let is_known = |uplink: &&UplinkView| {
        uplink.capacity_bytes_per_second > 0.0 || uplink.rtt_seconds.is_some()
    };
    for uplink in view.uplinks.iter().filter(is_known) {
        let capacity = match uplink.capacity_bytes_per_second {
            known if known > 0.0 => rate(known),
            _ => "?".into(),
        };
        let rtt = uplink.rtt_seconds.map(|rtt| format!(" rtt {}", span(rtt))).unwrap_or_default();
        parts.push(format!("{} {capacity}{rtt}", uplink.name));
    }
    parts.push(format!("held {} of {}", size(view.held_bytes), size(view.memory_bytes)));
    let mood = if view.lost_deliveries == 0 { Mood::Plain } else { Mood::Bad };
    parts.push(paint.paint(&format!("lost {}", view.lost_deliveries), mood));
    let mut text = wrapped(&parts, width);
    for output in view.outputs.iter().filter(|output| !output.trouble.is_empty()) {
        let line = format!("{} {}: {}", output.name, output.state().0, output.trouble);
        text += &paint.paint(&cut(&line, width), Mood::Bad);
        text.push('\n');
    }
    let is_alone = view.fleet.as_ref().is_some_and(|fleet| !fleet.has_leader);
    let own = view.mirror.as_ref().and_then(|mirror| mirror.own.as_ref());
    for (is_so, line) in [
        (is_alone, "fleet: no orchestrator leads, the node goes on alone"),
        (own.is_some_and(|own| !own.is_up), "mirror: away, the log is on this machine only"),
    ] {
        if is_so {
            text += &paint.paint(&cut(line, width), Mood::Bad);
            text.push('\n');
        }
    }
    text
}

/// Parts beside each other, in as many lines as they need.
pub(super) fn wrapped(parts: &[String], width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + part.chars().count() <= width => {
                *line += "  ";
                *line += part;
            }
            _ => lines.push(cut(part, width)),
        }
    }
    lines.join("\n") + "\n"
}

/// A line of at most `width` characters.
pub(super) fn cut(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        Some((end, _)) => line[..end].to_owned(),
        None => line.to_owned(),
    }
}

/// A line a class. With `end_to_end`, since start and beside it; else over the last minute.
pub fn classes(view: &NodeView, end_to_end: Option<&[EndToEnd]>, sort: Sort) -> Table {
    let mut columns = vec![
        Column::text("class", 0),
        Column::number("bound", 5),
        Column::number("in", 4),
        Column::number("out", 3),
        Column::number("queue", 0),
        Column::number("late", 0),
    ];
    match end_to_end {
        Some(_) => columns.extend([
            Column::number("residence p50/p99", 0),
            Column::number("end to end p50/p99", 0),
        ]),
        None => columns.push(Column::number("1 min p50 / p99", 0)),
    }
    columns.extend([Column::number("violated", 2), Column::text("dropped", 1)]);
    let mut all: Vec<&ClassView> = view.classes.iter().collect();
    sort.sort(&mut all, |class| &class.name, class_worth);
    let rows = all.iter().map(|class| class_row(class, end_to_end)).collect();
    Table { columns, rows }
}

fn class_worth(class: &ClassView, by: Sort) -> f64 {
    match by {
        Sort::In => class.input_bytes_per_second,
        Sort::Queue => class.backlog_bytes as f64,
        Sort::P99 => class.recent.p99_seconds,
        Sort::Violated => class.recent.violated as f64,
        Sort::Dropped => class.counts.dropped_all() as f64,
        Sort::Given | Sort::Name => 0.0,
    }
}

fn class_row(class: &ClassView, end_to_end: Option<&[EndToEnd]>) -> Vec<Cell> {
    let bound = class.bound_seconds;
    let times = |times: &TimesView| {
        let mood = p99(times.p99_seconds, times.count, bound);
        (quantiles(times.count, times.p50_seconds, times.p99_seconds), mood)
    };
    let mut row = vec![
        class.name.as_str().into(),
        span(bound).into(),
        rate(class.input_bytes_per_second).into(),
        rate(class.output_bytes_per_second).into(),
        format!("{} / {}", class.backlog_records, size(class.backlog_bytes)).into(),
        Cell::count(class.late_records, Mood::Warn),
    ];
    if let Some(all) = end_to_end {
        let (text, mood) = times(&class.stages.residence);
        row.push(Cell::new(text, mood));
        let own = all.iter().find(|times| times.class == class.name);
        // The bound is that of residence: the line's delay is no lateness.
        row.push(own.map_or_else(|| "-".into(), |own| times(&own.times).0).into());
    } else {
        let recent = &class.recent;
        let mood = p99(recent.p99_seconds, recent.count, bound);
        row.push(Cell::new(quantiles(recent.count, recent.p50_seconds, recent.p99_seconds), mood));
    }
    row.extend([Cell::count(class.counts.violated, Mood::Warn), dropped(&class.counts)]);
    row
}

/// A line for each `[[stream]]`.
pub(super) fn streams(view: &NodeView, sort: Sort) -> Table {
    let columns = vec![
        Column::text("stream", 0),
        Column::text("class", 4),
        Column::number("bound", 5),
        Column::number("in", 3),
        Column::number("out", 2),
        Column::number("held", 0),
        Column::number("1 min p50 / p99", 0),
        Column::number("violated", 1),
        Column::number("refused", 6),
        Column::text("dropped", 0),
    ];
    let mut all: Vec<_> = view.streams.iter().collect();
    let worth = |stream: &crate::observe::status::view::StreamView, by| match by {
        Sort::In => stream.input_bytes_per_second,
        Sort::Queue => stream.held_bytes as f64,
        Sort::P99 => stream.recent.p99_seconds,
        Sort::Violated => stream.recent.violated as f64,
        Sort::Dropped => stream.counts.dropped_all() as f64,
        Sort::Given | Sort::Name => 0.0,
    };
    sort.sort(&mut all, |stream| &stream.name, worth);
    let rows = all.into_iter().map(|stream| {
        let recent = &stream.recent;
        let mood = p99(recent.p99_seconds, recent.count, stream.bound_seconds);
        vec![
            stream.name.as_str().into(),
            stream.class.as_str().into(),
            span(stream.bound_seconds).into(),
            rate(stream.input_bytes_per_second).into(),
            rate(stream.output_bytes_per_second).into(),
            format!("{} / {}", stream.held_deliveries, size(stream.held_bytes)).into(),
            Cell::new(quantiles(recent.count, recent.p50_seconds, recent.p99_seconds), mood),
            Cell::count(stream.counts.violated, Mood::Warn),
            Cell::count(stream.counts.refused, Mood::Warn),
            dropped(&stream.counts),
        ]
    });
    Table { columns, rows: rows.collect() }
}

/// A line for each output, with why it cannot send.
pub(super) fn outputs(view: &NodeView) -> Table {
    let columns = vec![
        Column::text("output", 0),
        Column::text("state", 0),
        Column::number("lanes", 1),
        Column::number("unconfirmed", 2),
        Column::text("why", 0),
    ];
    let rows = view.outputs.iter().map(|output| {
        let (state, is_well) = output.state();
        vec![
            output.name.as_str().into(),
            Cell::new(state, if is_well { Mood::Good } else { Mood::Bad }),
            format!("{} of {}", output.lanes_up, output.lanes).into(),
            output.unconfirmed_records.to_string().into(),
            Cell::new(if output.trouble.is_empty() { "-" } else { &output.trouble }, Mood::Plain),
        ]
    });
    Table { columns, rows: rows.collect() }
}

/// A line for each path of a link; `None` without links.
pub(super) fn links(view: &NodeView) -> Option<Table> {
    let columns = vec![
        Column::text("link", 0),
        Column::text("path", 0),
        Column::text("state", 0),
        Column::text("by", 3),
        Column::number("rate", 0),
        Column::number("rtt", 0),
        Column::number("queue", 2),
        Column::number("loss", 0),
        Column::number("marked", 2),
        Column::number("share", 1),
    ];
    let known = |number: f64, text: fn(f64) -> String| {
        if number > 0.0 { text(number) } else { "-".to_owned() }
    };
    let paths = view.links.iter().flat_map(|link| link.paths.iter().map(move |path| (link, path)));
    let rows = paths.map(|(link, path)| {
        let is_in = link.direction == "in";
        let mood = if path.state == "up" { Mood::Good } else { Mood::Bad };
        vec![
            if is_in { format!("from {}", link.name) } else { link.name.clone() }.into(),
            path.name.as_str().into(),
            Cell::new(path.state.as_str(), mood),
            path.transport.as_deref().unwrap_or("-").into(),
            known(path.rate_bytes_per_second, rate).into(),
            path.rtt_seconds.map_or_else(|| "-".into(), span).into(),
            known(path.queue_delay_seconds, span).into(),
            format!("{:.1} %", path.loss * 100.0).into(),
            known(path.marked_packets as f64, |marked| format!("{marked}")).into(),
            format!("{:.0} %", path.share * 100.0).into(),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    (!rows.is_empty()).then_some(Table { columns, rows })
}

#[cfg(test)]
mod tests;
