//! The job that receives records, and what it has seen.

use std::io::Read;
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::record::Record;
use super::socket::{self, Kind};
use crate::load::READY;
use crate::load::raw;
use crate::load::stamp::wall_ns;

/// Width of a bin of goodput.
const BIN_NS: u64 = 100_000_000;
/// Bins kept: ten minutes.
const BINS_MAX: usize = 6000;
/// How often it tells.
const PERIOD: Duration = Duration::from_millis(200);
/// Longest latency that is told apart, in microseconds.
const LATENCY_MAX_US: u64 = 600_000_000;

/// Where records come, and what counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveRecords {
    pub at: SocketAddrV4,
    /// How; as an MQTT 5 broker if left out.
    pub kind: Option<Kind>,
    /// Latencies of records that were due at least so long after the first one count, in seconds.
    pub settled: f64,
}

/// What has come so far: a line each time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub records: u64,
    pub bytes: u64,
    /// Records that came again.
    pub duplicates: u64,
    /// Records that came after a later one of their stream.
    pub disordered: u64,
    /// Bytes of each tenth of a second since the first record was due.
    pub bins: Vec<u64>,
    /// Latency in milliseconds of settled records: median, 99 of 100, slowest.
    pub latency_ms: [f64; 3],
    /// Longest time between two records, in milliseconds.
    pub gap_ms: f64,
}

struct Book {
    job: ReceiveRecords,
    seen: Seen,
    /// Of each stream, which came.
    came: Vec<Vec<bool>>,
    latency: Histogram<u64>,
    /// When the first record to come was due: near enough to the beginning of the load.
    begin_ns: Option<u64>,
    last_ns: u64,
}

impl Book {
    fn take(&mut self, record: Record, now_ns: u64) {
        let stream = record.stream as usize % 65_536;
        if self.came.len() <= stream {
            self.came.resize(stream + 1, Vec::new());
        }
        let came = &mut self.came[stream];
        let place = record.seq as usize;
        if came.get(place) == Some(&true) {
            self.seen.duplicates += 1;
            return;
        }
        if place < came.len() {
            self.seen.disordered += 1;
        } else {
            came.resize(place + 1, false);
        }
        came[place] = true;
        self.seen.records += 1;
        self.seen.bytes += u64::from(record.size);
        let begin_ns = *self.begin_ns.get_or_insert(record.due_ns);
        let bin = (now_ns.saturating_sub(begin_ns) / BIN_NS) as usize;
        if bin < BINS_MAX {
            let bins = &mut self.seen.bins;
            bins.resize(bins.len().max(bin + 1), 0);
            bins[bin] += u64::from(record.size);
        }
        if self.last_ns > 0 {
            let gap = now_ns.saturating_sub(self.last_ns) as f64 / 1e6;
            self.seen.gap_ms = self.seen.gap_ms.max(gap);
        }
        self.last_ns = now_ns;
        if record.due_ns >= begin_ns + (self.job.settled * 1e9) as u64 {
            let latency = now_ns.saturating_sub(record.due_ns) / 1000;
            self.latency.saturating_record(latency.clamp(1, LATENCY_MAX_US));
        }
    }

    fn tell(&self) -> Seen {
        let ms = |part| self.latency.value_at_quantile(part) as f64 / 1e3;
        let latency_ms = [ms(0.5), ms(0.99), self.latency.max() as f64 / 1e3];
        Seen { latency_ms, ..self.seen.clone() }
    }
}

impl ReceiveRecords {
    /// Does it, until it is ended.
    #[expect(clippy::print_stdout, reason = "the result of a job")]
    pub fn run(&self) -> anyhow::Result<()> {
        let listener = match &self.kind {
            Some(kind) => socket::listen(kind, self.at)?,
            None => TcpListener::bind(self.at)?,
        };
        let book = Arc::new(Mutex::new(Book {
            job: self.clone(),
            seen: Seen::default(),
            came: Vec::new(),
            latency: Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)?,
            begin_ns: None,
            last_ns: 0,
        }));
        println!("{READY}");
        let (is_mqtt, of_connections) = (self.kind.is_none(), book.clone());
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let book = of_connections.clone();
                // A connection that ends says nothing more.
                std::thread::spawn(move || {
                    if !is_mqtt {
                        return serve_tcp(stream, &book);
                    }
                    raw::serve(stream, |payload| {
                        Record::read(payload).into_iter().for_each(|record| take(&book, record));
                    })
                });
            }
        });
        loop {
            std::thread::sleep(PERIOD);
            let seen = book.lock().unwrap_or_else(PoisonError::into_inner).tell();
            println!("{}", serde_json::to_string(&seen)?);
        }
    }
}

fn take(book: &Mutex<Book>, record: Record) {
    book.lock().unwrap_or_else(PoisonError::into_inner).take(record, wall_ns());
}

fn serve_tcp(mut stream: TcpStream, book: &Mutex<Book>) -> std::io::Result<()> {
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 256 * 1024]);
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        bytes.extend(&chunk[..count]);
        let mut start = 0;
        while let Some(record) = Record::read(&bytes[start..])
            && bytes.len() - start >= record.size as usize
        {
            take(book, record);
            start += record.size as usize;
        }
        bytes.drain(..start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_knows_what_came_twice_and_late() {
        let job = ReceiveRecords { at: "127.0.0.1:1".parse().unwrap(), kind: None, settled: 1.0 };
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).unwrap();
        let mut book = Book {
            job,
            seen: Seen::default(),
            came: Vec::new(),
            latency,
            begin_ns: None,
            last_ns: 0,
        };
        let record = |seq, due_ns| Record { stream: 3, size: 1000, seq, due_ns };
        book.take(record(0, 1_000_000_000), 1_050_000_000);
        book.take(record(2, 2_000_000_000), 2_100_000_000);
        book.take(record(1, 2_000_000_000), 2_200_000_000);
        book.take(record(2, 2_000_000_000), 2_300_000_000);
        let seen = book.tell();
        assert_eq!((seen.records, seen.bytes, seen.duplicates, seen.disordered), (3, 3000, 1, 1));
        assert_eq!(
            (seen.bins.len(), seen.bins[0], seen.bins[11], seen.bins[12]),
            (13, 1000, 1000, 1000)
        );
        assert!(
            (seen.latency_ms[0] - 100.0).abs() < 0.2 && (seen.latency_ms[2] - 200.0).abs() < 0.2
        );
        assert!((seen.gap_ms - 1050.0).abs() < 0.1);
    }
}
