//! The text form of metrics that Prometheus reads (exposition format 0.0.4).

use std::fmt::Write;

use tidegate_node::status::StageTimes;

use super::{BUCKETS, Kind, Metric};

pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];
pub(super) const NONE: Labels<'static> = &[];

/// Text in the making.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.0
    }

    pub(super) fn head(&mut self, metric: Metric) {
        let Metric { name, kind, help } = metric;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn family<'a, const N: usize>(
        &mut self,
        metric: Metric,
        samples: [(Labels<'a>, f64); N],
    ) {
        self.head(metric);
        for (labels, value) in samples {
            self.sample(metric.name, labels, value);
        }
    }

    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.0.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.0, " {value}");
    }

    /// Buckets are cumulative, as the format wants them.
    pub(super) fn histogram(&mut self, name: &str, labels: Labels<'_>, times: &StageTimes) {
        for edge in BUCKETS {
            let _ = write!(self.0, "{name}_bucket");
            self.labels(labels, Some(&edge.as_secs_f64().to_string()));
            let _ = writeln!(self.0, " {}", times.count_within(edge));
        }
        let _ = write!(self.0, "{name}_bucket");
        self.labels(labels, Some("+Inf"));
        let _ = writeln!(self.0, " {}", times.count());
        let _ = write!(self.0, "{name}_sum");
        self.labels(labels, None);
        let _ = writeln!(self.0, " {}", times.sum().as_secs_f64());
        let _ = write!(self.0, "{name}_count");
        self.labels(labels, None);
        let _ = writeln!(self.0, " {}", times.count());
    }

    fn labels(&mut self, labels: Labels<'_>, edge: Option<&str>) {
        let edge = edge.map(|edge| ("le", edge));
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(edge) {
            let _ = write!(self.0, "{before}{name}=\"");
            for c in value.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
            before = ',';
        }
        if before == ',' {
            self.0.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text(String::new());
        text.sample("x", &[("stream", "a\"b\\c\nd"), ("class", "ls")], 0.5);
        assert_eq!(text.0, "x{stream=\"a\\\"b\\\\c\\nd\",class=\"ls\"} 0.5\n");
    }

    #[test]
    fn buckets_are_cumulative() {
        let mut times = StageTimes::default();
        for millis in [1, 40, 70_000] {
            times.record(Duration::from_millis(millis));
        }
        let mut text = Text(String::new());
        text.histogram("t", &[("stage", "wait")], &times);
        for line in [
            "t_bucket{stage=\"wait\",le=\"0.001\"} 1\n",
            "t_bucket{stage=\"wait\",le=\"0.05\"} 2\n",
            "t_bucket{stage=\"wait\",le=\"60\"} 2\n",
            "t_bucket{stage=\"wait\",le=\"+Inf\"} 3\n",
            "t_count{stage=\"wait\"} 3\n",
        ] {
            assert!(text.0.contains(line), "{line} in\n{}", text.0);
        }
    }
}
