//! The classes of a node as a table for a terminal.

use std::fmt::Write;

use super::links;
use super::view::{NodeView, TimesView, UplinkView};

/// What the far end of the demo measured for a class, printed beside the node's own figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndToEnd {
    /// The class.
    pub class: String,
    /// From the source's clock to the far end.
    pub times: TimesView,
}

/// The table: a line about the node, a head, one line a class. `end_to_end` adds a column.
pub fn render(view: &NodeView, end_to_end: Option<&[EndToEnd]>) -> String {
    let mut rows = vec![head(end_to_end.is_some())];
    for class in &view.classes {
        let residence = &class.stages.residence;
        let mut row = vec![
            class.name.clone(),
            span(class.bound_seconds),
            rate(class.input_bytes_per_second),
            rate(class.output_bytes_per_second),
            format!("{} / {}", class.backlog_records, size(class.backlog_bytes)),
            class.late_records.to_string(),
            quantiles(residence),
        ];
        if let Some(all) = end_to_end {
            let own = all.iter().find(|times| times.class == class.name);
            row.push(own.map_or_else(|| "-".into(), |own| quantiles(&own.times)));
        }
        row.push(class.counts.violated.to_string());
        row.push(match class.counts.drops_in_words() {
            words if words.is_empty() => "0".into(),
            words => words,
        });
        rows.push(row);
    }
    summary(view) + &align(&rows) + &links::render(&view.links) + &operators(view)
}

fn head(has_end_to_end: bool) -> Vec<String> {
    let mut head = vec!["class", "bound", "in", "out", "queue", "late", "residence p50 / p99"];
    if has_end_to_end {
        head.push("end to end p50 / p99");
    }
    head.extend(["violated", "dropped"]);
    head.into_iter().map(Into::into).collect()
}

/// A line for each topic of an operator, where there are some.
fn operators(view: &NodeView) -> String {
    if view.operators.is_empty() {
        return String::new();
    }
    let head = [
        "operator",
        "topic",
        "bound",
        "records/s",
        "cpu",
        "wait p90",
        "delivery p90 / p99",
        "violated",
        "failed",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for topic in &view.operators {
        let failed: u64 = topic.dropped.values().chain(topic.failed.values()).sum();
        let delivery = match topic.delivery.count {
            0 => "-".into(),
            _ => format!(
                "{} / {}",
                span(topic.delivery.p90_seconds),
                span(topic.delivery.p99_seconds)
            ),
        };
        rows.push(vec![
            topic.operator.clone(),
            topic.topic.clone(),
            span(topic.bound_seconds),
            format!("{:.1}", topic.records_per_second),
            span(topic.cpu_mean_seconds),
            span(topic.wait.p90_seconds),
            delivery,
            topic.violated.to_string(),
            failed.to_string(),
        ]);
    }
    format!("\n{}", align(&rows))
}

/// One line about the node as a whole.
fn summary(view: &NodeView) -> String {
    let mut line = format!("{}  up {}", view.node, clock(view.uptime_seconds));
    // Where no network is below, there is nothing to tell.
    let is_known = |uplink: &&UplinkView| {
        uplink.capacity_bytes_per_second > 0.0 || uplink.rtt_seconds.is_some()
    };
    for uplink in view.uplinks.iter().filter(is_known) {
        let capacity = match uplink.capacity_bytes_per_second {
            known if known > 0.0 => rate(known),
            _ => "?".into(),
        };
        let _ = write!(line, "  {} {capacity}", uplink.name);
        if let Some(rtt) = uplink.rtt_seconds {
            let _ = write!(line, " rtt {}", span(rtt));
        }
    }
    for output in view.outputs.iter().filter(|output| output.lanes_up == 0) {
        let _ = write!(line, "  {} is down", output.name);
    }
    for output in view.outputs.iter().filter(|output| output.is_refusing) {
        let _ = write!(line, "  {} refuses", output.name);
    }
    let _ = writeln!(
        line,
        "  held {} of {}  lost {}",
        size(view.held_bytes),
        size(view.memory_bytes),
        view.lost_deliveries
    );
    line
}

/// Columns side by side: the first one left, numbers right, the last one as it is.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                last if last == columns - 1 => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn quantiles(times: &TimesView) -> String {
    match times.count {
        0 => "-".into(),
        _ => format!("{} / {}", span(times.p50_seconds), span(times.p99_seconds)),
    }
}

/// A rate in network notation.
pub fn rate(bytes_per_second: f64) -> String {
    tidegate_types::units::Rate::new(bytes_per_second.max(0.0)).to_string()
}

/// A span of time with three significant digits.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// A size in binary units.
pub fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b >= 1_073_741_824.0 => format!("{:.1} GiB", b / 1_073_741_824.0),
        b if b >= 1_048_576.0 => format!("{:.1} MiB", b / 1_048_576.0),
        b if b >= 1024.0 => format!("{:.0} KiB", b / 1024.0),
        b => format!("{b:.0} B"),
    }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::operators::TopicView;
    use super::super::view::{ClassView, CountsView, StagesView};
    use super::*;

    fn class(name: &str, backlog_records: u64, p99_seconds: f64) -> ClassView {
        let residence =
            TimesView { count: 9, p50_seconds: 0.0042, p99_seconds, ..Default::default() };
        ClassView {
            name: name.into(),
            bound_seconds: 0.05,
            backlog_records,
            backlog_bytes: backlog_records * 20_000,
            input_bytes_per_second: 400_000.0,
            output_bytes_per_second: 230_000.0,
            counts: CountsView { dropped: [("full".into(), 12)].into(), ..Default::default() },
            stages: StagesView { residence, ..Default::default() },
            ..Default::default()
        }
    }

    #[test]
    fn columns_stand_below_each_other() {
        let uplink = UplinkView {
            name: "uplink".into(),
            capacity_bytes_per_second: 230_000.0,
            rtt_seconds: Some(0.1034),
            ..Default::default()
        };
        let view = NodeView {
            node: "gate".into(),
            uptime_seconds: 3725.0,
            memory_bytes: 64 << 20,
            classes: vec![class("ls", 0, 0.031), class("lt", 312, 12.31)],
            uplinks: vec![uplink],
            ..Default::default()
        };
        insta::assert_snapshot!(render(&view, None));
        let times =
            TimesView { count: 3, p50_seconds: 0.06, p99_seconds: 0.11, ..Default::default() };
        let measured = [EndToEnd { class: "ls".into(), times }];
        insta::assert_snapshot!(render(&view, Some(&measured)));
    }

    #[test]
    fn what_an_operator_cannot_use_is_not_called_lost() {
        let topic = TopicView { failed: [("parse".to_owned(), 2)].into(), ..Default::default() };
        let view = NodeView { operators: vec![topic], ..Default::default() };
        let table = operators(&view);
        assert!(table.contains("failed") && !table.contains("lost"), "{table}");
        assert!(table.trim_end().ends_with(" 2"), "{table}");
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(
            ["0 us", "1.5 ms", "50 ms", "1.25 s", "600 s"],
            [0.0, 0.0015, 0.05, 1.25, 600.0].map(span)
        );
        assert_eq!(
            ["0 B", "20 KiB", "1.5 MiB", "2.0 GiB"],
            [0, 20_480, 1_572_864, 2 << 30].map(size)
        );
    }
}
