//! The paper's workload at the far end: sum and average of what the records of a stream carry, in windows of
//! a second, checked against the generator's own sums.
//! Source: papers/janus.txt, §VII-A.
//!
//! Windows tumble, and are of the time at which a record was due. An answer is exact: it is given as soon as
//! every record of its window has come, which the places in the stream tell. A stream that waits for an old
//! record has no answer meanwhile, however much newer ones have come.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Length of a window in nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;
/// How a line begins that says an [`Answer`].
const HEAD: &str = "window ";

/// What a window holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Records.
    pub count: u64,
    /// Sum of their values.
    pub sum: i64,
}

/// Sums by the number of the window: the seconds since the clock's beginning.
pub type Sums = BTreeMap<u64, Sum>;

/// Adds a record that was due at `due_ns`.
pub fn add(sums: &mut Sums, due_ns: u64, value: i64) {
    sums.entry(due_ns / WINDOW_NS).or_default().add(value);
}

impl Sum {
    fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += value;
    }

    /// The mean value; `None` of no record.
    pub fn average(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// The query of one stream.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The place that is to come next.
    next: u64,
    /// What came before its turn: when it was due, and its value.
    early: BTreeMap<u64, (u64, i64)>,
    open: Option<(u64, Sum)>,
}

impl Query {
    /// A query whose stream begins with this place.
    pub fn new(first: u64) -> Query {
        Query { next: first, ..Query::default() }
    }

    /// Takes a record; answers with the windows that are complete by it. A further copy changes nothing.
    pub fn take(&mut self, seq: u64, due_ns: u64, value: i64) -> Vec<(u64, Sum)> {
        let mut complete = Vec::new();
        if seq >= self.next {
            self.early.entry(seq).or_insert((due_ns, value));
        }
        while let Some((due_ns, value)) = self.early.remove(&self.next) {
            self.next += 1;
            let window = due_ns / WINDOW_NS;
            if self.open.is_some_and(|(open, _)| open != window) {
                complete.extend(self.open.take());
            }
            self.open.get_or_insert((window, Sum::default())).1.add(value);
        }
        complete
    }
}

/// What the query says of a window, and when; as a line `window STREAM WINDOW COUNT SUM AT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The stream.
    pub stream: String,
    /// The window's number.
    pub window: u64,
    /// What is in it.
    pub sum: Sum,
    /// When it was complete, on the clock of the windows.
    pub at_ns: u64,
}

impl Answer {
    /// Reads a line; `None` for one that is no answer.
    pub fn read(line: &str) -> Option<anyhow::Result<Answer>> {
        line.strip_prefix(HEAD).map(str::parse)
    }

    /// From the window's end to the answer.
    fn after(&self) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub((self.window + 1) * WINDOW_NS))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Answer { stream, window, sum: Sum { count, sum }, at_ns } = self;
        write!(out, "{HEAD}{stream} {window} {count} {sum} {at_ns}")
    }
}

impl FromStr for Answer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Answer> {
        let read = || {
            let mut words = text.split(' ');
            Some(Answer {
                stream: words.next()?.into(),
                window: words.next()?.parse().ok()?,
                sum: Sum { count: words.next()?.parse().ok()?, sum: words.next()?.parse().ok()? },
                at_ns: words.next()?.parse().ok()?,
            })
        };
        read().with_context(|| format!("no answer of a window: {text:?}"))
    }
}

/// Answers beside the truth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// Windows that can be answered: all but the newest of a stream, which nothing ends.
    pub asked: u64,
    /// Times from the end of a window to its answer, sorted; one for each answer.
    pub after: Vec<Duration>,
    /// Answers with another count or sum than the generator's.
    pub wrong: u64,
    /// Records and values of all answers.
    pub total: Sum,
}

impl Judged {
    /// Judges the answers of a stream by its generator's sums; adds them to what was judged before.
    pub fn add<'a>(&mut self, truth: &Sums, answers: impl IntoIterator<Item = &'a Answer>) {
        self.asked += (truth.len() as u64).saturating_sub(1);
        for answer in answers {
            self.wrong += u64::from(truth.get(&answer.window) != Some(&answer.sum));
            self.after.push(answer.after());
            self.total.count += answer.sum.count;
            self.total.sum += answer.sum.sum;
        }
        self.after.sort_unstable();
    }

    /// Adds what another run showed.
    pub fn merge(&mut self, other: &Judged) {
        self.asked += other.asked;
        self.wrong += other.wrong;
        self.after.extend(&other.after);
        self.after.sort_unstable();
        self.total.count += other.total.count;
        self.total.sum += other.total.sum;
    }

    /// The time that this part (0..=1) of the answers keeps; `None` without an answer.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let place = (self.after.len() as f64 * part) as usize;
        self.after.get(place.min(self.after.len().saturating_sub(1))).copied()
    }

    /// In a line: how many windows were answered, how long after their end, and the average.
    pub fn line(&self) -> String {
        let Judged { asked, after, wrong, total } = self;
        let (Some(p50), Some(p99), Some(average)) =
            (self.quantile(0.5), self.quantile(0.99), total.average())
        else {
            return format!("0 of {asked} windows");
        };
        let ms = |after: Duration| after.as_secs_f64() * 1e3;
        format!(
            "{} of {asked} windows, {:.0} / {:.0} ms after their end, average {average:.2}, {wrong} wrong",
            after.len(),
            ms(p50),
            ms(p99)
        )
    }

    /// What is broken if an answer is wrong.
    pub fn broken(&self, whose: &str) -> Option<String> {
        let (wrong, all) = (self.wrong, self.after.len());
        (wrong > 0)
            .then(|| format!("{whose}: {wrong} of {all} windows have a wrong sum or average"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u64 = WINDOW_NS / 2;

    /// Takes places, each due half a second after the one before, with ten times the place as value.
    fn taken(query: &mut Query, places: &[u64]) -> Vec<(u64, Sum)> {
        places.iter().flat_map(|&seq| query.take(seq, seq * HALF, seq as i64 * 10)).collect()
    }

    #[test]
    fn a_window_is_answered_when_all_of_it_is_there() {
        let mut query = Query::default();
        assert_eq!(taken(&mut query, &[0, 1]), [], "more of it may come");
        assert_eq!(taken(&mut query, &[2]), [(0, Sum { count: 2, sum: 10 })]);
        assert_eq!(
            taken(&mut query, &[4, 5, 6, 2, 0]),
            [],
            "record 3 is missing; copies say nothing"
        );
        let both = [(1, Sum { count: 2, sum: 50 }), (2, Sum { count: 2, sum: 90 })];
        assert_eq!(taken(&mut query, &[3]), both);
    }

    #[test]
    fn a_stream_may_begin_anywhere_and_pause() {
        let mut query = Query::new(1);
        assert_eq!(query.take(1, 0, 5), []);
        assert_eq!(query.take(2, 9 * WINDOW_NS, 6), [(0, Sum { count: 1, sum: 5 })]);
    }

    #[test]
    fn answers_are_judged_by_the_generators_sums() {
        let mut truth = Sums::new();
        (0..6).for_each(|seq| add(&mut truth, seq * HALF, seq as i64 * 10));
        let mut query = Query::default();
        let answer = |(window, sum)| Answer {
            stream: "alarm".into(),
            window,
            sum,
            at_ns: (window + 1) * WINDOW_NS + 7_000_000,
        };
        let mut answers: Vec<Answer> =
            taken(&mut query, &[0, 2, 1, 3, 4, 5]).into_iter().map(answer).collect();
        let mut judged = Judged::default();
        judged.add(&truth, &answers);
        assert_eq!((judged.asked, judged.wrong, judged.broken("x")), (2, 0, None));
        assert_eq!(judged.quantile(0.5), Some(Duration::from_millis(7)));
        assert_eq!(judged.total.average(), Some(15.0));
        assert_eq!(
            judged.line(),
            "2 of 2 windows, 7 / 7 ms after their end, average 15.00, 0 wrong"
        );
        assert_eq!(Judged { asked: 4, ..Judged::default() }.line(), "0 of 4 windows");
        answers[1].sum.sum += 1;
        let mut judged = Judged::default();
        judged.add(&truth, &answers);
        assert_eq!(judged.wrong, 1);
        assert!(judged.broken("x").unwrap().starts_with("x: 1 of 2 windows"));
    }

    #[test]
    fn an_answer_is_a_line() {
        let sum = Sum { count: 5, sum: -12 };
        let answer = Answer { stream: "alarm.7".into(), window: 3, sum, at_ns: 4_000_000_001 };
        assert_eq!(answer.to_string(), "window alarm.7 3 5 -12 4000000001");
        assert_eq!(Answer::read(&answer.to_string()).unwrap().unwrap(), answer);
        assert_eq!(answer.after(), Duration::from_nanos(1));
        assert!(
            Answer::read("window 3").unwrap().is_err() && Answer::read("alarm 7 1 2").is_none()
        );
    }
}
