//! What publishers were promised, and what a consumer got: one book for every run.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, timeout_at};

use super::stamp::Stamp;
use super::{Acked, BEGAN, READY, Tally};
use crate::net::process::Process;
use crate::query::{Answer, Judged};

/// Both sides of every stream, by group: the streams `alarm.0`, `alarm.1` are of the group `alarm`.
#[derive(Clone, Debug)]
pub struct Book {
    load: Duration,
    /// When the load began, in nanoseconds since 1970, once a publisher has said so.
    began_ns: Option<u64>,
    acked: BTreeMap<String, Acked>,
    tallies: BTreeMap<String, Tally>,
    answers: Vec<Answer>,
    accepted: u64,
    got: u64,
}

/// What became of a group of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Handed to a connection.
    pub sent: u64,
    pub accepted: u64,
    pub refused: u64,
    /// Never answered: nobody knows.
    pub unanswered: u64,
    /// Accepted and not received.
    pub lost: u64,
    /// Refused and received all the same.
    pub refused_and_came: u64,
}

impl Book {
    /// An empty book of a load of this length.
    pub fn new(load: Duration) -> Book {
        let (acked, tallies) = (BTreeMap::new(), BTreeMap::new());
        let answers = Vec::new();
        Book { load, began_ns: None, acked, tallies, answers, accepted: 0, got: 0 }
    }

    /// When the load began, in nanoseconds since 1970; 0 while no publisher has said so.
    pub fn began_ns(&self) -> u64 {
        self.began_ns.unwrap_or(0)
    }

    /// End of the load: never, while nobody knows when it began.
    fn end_ns(&self) -> u64 {
        let load = u64::try_from(self.load.as_nanos()).unwrap_or(u64::MAX);
        self.began_ns.map_or(u64::MAX, |began| began.saturating_add(load))
    }

    /// Takes a line of a consumer: what came.
    pub fn take(&mut self, line: &str) -> anyhow::Result<()> {
        if line == READY {
            return Ok(());
        }
        if let Some(answer) = Answer::read(line) {
            self.answers.push(answer?);
            return Ok(());
        }
        let stamp: Stamp = line.parse()?;
        let received = line.rsplit(' ').next().unwrap_or_default();
        let received = received.parse().with_context(|| format!("no time of arrival: {line}"))?;
        let end_ns = self.end_ns();
        // Looked up first: a key is made once a group, not once a record.
        let is_first = match self.tallies.get_mut(stamp.group()) {
            Some(tally) => tally.take(&stamp, received, end_ns),
            None => {
                let tally = self.tallies.entry(stamp.group().to_owned()).or_default();
                tally.take(&stamp, received, end_ns)
            }
        };
        self.got += u64::from(is_first);
        Ok(())
    }

    /// Takes a line of a publisher: when it began, or when it has ended, what it was promised.
    pub fn promise(&mut self, line: &str) -> anyhow::Result<()> {
        if let Some(began) = line.strip_prefix(BEGAN) {
            let began = began.trim().parse().with_context(|| format!("a publisher says {line}"))?;
            self.began_ns = self.began_ns.or(Some(began));
            return Ok(());
        }
        let acked: Acked =
            serde_json::from_str(line).with_context(|| format!("a publisher says {line}"))?;
        self.accepted += acked.accepted;
        self.acked.insert(acked.name.clone(), acked);
        Ok(())
    }

    /// Whether everything came that publishers were promised so far.
    pub fn is_complete(&self) -> bool {
        self.got >= self.accepted && self.account("").lost == 0
    }

    /// Different records that came.
    pub fn got(&self) -> u64 {
        self.got
    }

    /// Copies after the first.
    pub fn duplicates(&self) -> u64 {
        self.tallies.values().map(|tally| tally.duplicates).sum()
    }

    /// What came of a group; `None` where nothing did.
    pub fn tally(&self, group: &str) -> Option<&Tally> {
        self.tallies.get(group)
    }

    /// What became of a group's streams; of all for an empty name.
    pub fn account(&self, group: &str) -> Account {
        let mut sum = Account::default();
        let of_group = |name: &str| group.is_empty() || Stamp::group_of(name) == group;
        for (name, acked) in self.acked.iter().filter(|(name, _)| of_group(name)) {
            let tally = self.tallies.get(Stamp::group_of(name));
            let sequence = tally.and_then(|tally| tally.stream(name));
            let came = |places: &[u64]| {
                let has = |place: &&u64| sequence.is_some_and(|sequence| sequence.has(**place));
                places.iter().filter(has).count() as u64
            };
            let got = sequence.map_or(0, |sequence| sequence.count());
            let (refused_and_came, open_and_came) = (came(&acked.refused), came(&acked.unanswered));
            sum.sent += acked.sent;
            sum.accepted += acked.accepted;
            sum.refused += acked.refused.len() as u64;
            sum.unanswered += acked.unanswered.len() as u64;
            sum.refused_and_came += refused_and_came;
            sum.lost += acked.accepted.saturating_sub(got - refused_and_came - open_and_came);
        }
        sum
    }

    /// What the query at the far end showed of a group's streams.
    pub fn judged(&self, group: &str) -> Judged {
        let mut judged = Judged::default();
        for (name, acked) in self.acked.iter().filter(|(name, _)| Stamp::group_of(name) == group) {
            judged.add(&acked.sums, self.answers.iter().filter(|answer| answer.stream == *name));
        }
        judged
    }

    /// Keeps the book until so many different records came, or the time is over.
    pub async fn keep(
        &mut self,
        consumer: &mut Process,
        until: Instant,
        most: u64,
    ) -> anyhow::Result<()> {
        let keep = async {
            while self.got < most {
                self.hear(consumer.line().await)?;
            }
            anyhow::Ok(())
        };
        timeout_at(until, keep).await.unwrap_or(Ok(()))
    }

    /// Keeps the book while something else goes on; returns what that returns.
    pub async fn during<T>(
        &mut self,
        consumer: &mut Process,
        other: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::pin!(other);
        loop {
            tokio::select! {
                ended = &mut other => return ended,
                line = consumer.line() => self.hear(line)?,
            }
        }
    }

    /// Keeps the book until the publisher has ended and everything accepted has come, or the time is over:
    /// that is a result, not a failure. Without a consumer nothing is to come.
    pub async fn follow(
        &mut self,
        publisher: &mut Process,
        mut consumer: Option<&mut Process>,
        until: Instant,
    ) -> anyhow::Result<()> {
        let (mut is_publishing, is_heard) = (true, consumer.is_some());
        let book = async {
            while is_publishing || (is_heard && !self.is_complete()) {
                let heard = async {
                    match &mut consumer {
                        Some(consumer) => consumer.line().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    line = publisher.line(), if is_publishing => match line {
                        Some(line) => self.promise(&line)?,
                        None => is_publishing = false,
                    },
                    line = heard => self.hear(line)?,
                }
            }
            anyhow::Ok(())
        };
        timeout_at(until, book).await.unwrap_or(Ok(()))
    }

    fn hear(&mut self, line: Option<String>) -> anyhow::Result<()> {
        self.take(&line.context("the consumer ended")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(name: &str, sent: u64, refused: &[u64], unanswered: &[u64]) -> String {
        let accepted = sent - (refused.len() + unanswered.len()) as u64;
        let (name, refused, unanswered) = (name.into(), refused.into(), unanswered.into());
        let acked = Acked { name, sent, accepted, refused, unanswered, ..Acked::default() };
        serde_json::to_string(&acked).unwrap()
    }

    #[test]
    fn a_single_lost_record_among_many_streams_is_found() {
        let mut book = Book::new(Duration::MAX);
        assert!(book.is_complete(), "nothing is promised");
        for publisher in 0..3 {
            book.promise(&acked(&format!("alarm.{publisher}"), 10, &[], &[])).unwrap();
        }
        assert_eq!(
            book.account("alarm"),
            Account { sent: 30, accepted: 30, lost: 30, ..Account::default() }
        );
        book.take(READY).unwrap();
        for (publisher, seq) in
            (0..3).flat_map(|publisher| (0..10).map(move |seq| (publisher, seq)))
        {
            if (publisher, seq) != (1, 7) {
                book.take(&format!("alarm.{publisher} {seq} 5 9")).unwrap();
            }
        }
        // As many came as were accepted: a copy must not hide the gap.
        book.take("alarm.1 8 5 9").unwrap();
        assert_eq!((book.got(), book.duplicates()), (29, 1));
        assert_eq!((book.account("").lost, book.is_complete()), (1, false));
        book.take("alarm.1 7 5 9").unwrap();
        assert!(book.is_complete() && book.account("bulk") == Account::default());
        assert_eq!(book.tally("alarm").unwrap().quantile(1.0).as_nanos(), 4);
    }

    #[test]
    fn what_was_refused_or_not_answered_hides_no_loss() {
        let mut book = Book::new(Duration::ZERO);
        book.promise(&acked("a", 4, &[0], &[1])).unwrap();
        for seq in [0, 1, 2] {
            book.take(&format!("a {seq} 5 9")).unwrap();
        }
        let account = book.account("a");
        assert_eq!((account.accepted, account.lost, account.refused_and_came), (2, 1, 1));
        assert!(!book.is_complete(), "three came, but record 3 did not");
    }

    #[test]
    fn what_comes_while_the_load_is_on_is_told_apart() {
        let mut book = Book::new(Duration::from_nanos(100));
        book.take("a 0 5 9999").unwrap();
        book.promise("began 1000").unwrap();
        for (seq, received) in [(1, 1099), (2, 1100), (3, 1101)] {
            book.take(&format!("a {seq} 5 {received}")).unwrap();
        }
        assert_eq!((book.began_ns(), book.tally("a").unwrap().in_time), (1000, 3));
    }

    #[test]
    fn answers_of_windows_are_judged_by_what_the_publisher_summed() {
        let mut book = Book::new(Duration::ZERO);
        let mut sums = crate::query::Sums::new();
        for (due_ns, value) in [(0, 4), (1_000_000_000, 5), (2_000_000_000, 6)] {
            crate::query::add(&mut sums, due_ns, value);
        }
        let acked =
            Acked { name: "alarm.0".into(), sent: 3, accepted: 3, sums, ..Acked::default() };
        book.promise(&serde_json::to_string(&acked).unwrap()).unwrap();
        book.take("window alarm.0 0 1 4 1300000000").unwrap();
        book.take("window alarm.0 1 1 6 2400000000").unwrap();
        let judged = book.judged("alarm");
        assert_eq!((judged.asked, judged.after.len(), judged.wrong), (2, 2, 1));
        assert_eq!(judged.quantile(0.0), Some(Duration::from_millis(300)));
        assert_eq!(book.judged("bulk"), Judged::default());
        assert_eq!(book.got(), 0, "an answer is no record");
    }

    #[test]
    fn strange_lines_are_told() {
        let mut book = Book::new(Duration::ZERO);
        for line in ["Traceback", "a 1 2 then", "a 1"] {
            assert!(book.take(line).is_err(), "{line}");
        }
        assert!(book.promise("{}").is_err() && book.promise("began soon").is_err());
    }
}
