//! The files of the sink: JSON lines, rotated by size. Blocking; only whole lines ever stay.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use tidegate_types::units::Time;

use super::mark::Mark;
use super::{FileOptions, lines};
use crate::disk::{Disk, DiskFile, How, read_at};
use crate::port::Transmit;

/// Text written by one call, if no single line is longer: a batch of large records is not held twice.
const CHUNK: usize = 256 * 1024;
/// Bytes looked through at once for the end of the last whole line.
const BLOCK: u64 = 64 * 1024;
/// Who may read and write the folder, of what the process's mask leaves.
const FOLDER: u32 = 0o777;

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    line: u64,
    id: String,
    class: &'a str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<(String, String)>,
    /// The payload, where it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// The payload in base64, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    again: bool,
}

/// A moment on both clocks, to tell arrivals in wall time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    node: Time,
    unix_ns: Option<u64>,
}

impl Moment {
    /// The present, which the node's clock shows as `node`.
    pub(crate) fn now(node: Time) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        Moment { node, unix_ns: since.and_then(|since| since.as_nanos().try_into().ok()) }
    }

    fn unix_ns(self, at: Time) -> Option<u64> {
        self.unix_ns?.checked_sub(self.node.since(at).as_nanos().try_into().ok()?)
    }
}

/// The file that is written.
#[derive(Debug)]
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    options: FileOptions,
    file: Box<dyn DiskFile>,
    /// Its length; it ends with a whole line.
    length: u64,
    /// Whether it has lines that are not synced.
    is_dirty: bool,
    /// Number of the next line.
    next: u64,
    mark: Mark,
}

impl Files {
    /// Opens `records.jsonl` and cuts off what a crash left of a last line: it was never confirmed.
    ///
    /// # Errors
    /// With the path.
    pub(crate) fn open(disk: Arc<dyn Disk>, options: FileOptions) -> io::Result<Self> {
        let path = current(&options.directory);
        let named = |error: io::Error| named(&path, &error);
        disk.make_folder(&options.directory, FOLDER).map_err(named)?;
        let file = disk.open(&path, How::WriteOrMake).map_err(named)?;
        let mark = Mark::open(&*disk, &options.directory).map_err(named)?;
        let mut files = Files { disk, options, file, length: 0, is_dirty: false, next: 1, mark };
        files.begin().map_err(named)?;
        Ok(files)
    }

    /// Looks for the end of the last whole line, and for the number of the next one.
    fn begin(&mut self) -> io::Result<()> {
        let all = self.file.length()?;
        self.length = whole_lines(&*self.file, all)?;
        let numbers = self.last_and_next()?;
        let (last, next) = numbers.map_or((None, 1), |(last, next)| (Some(last), next));
        let missing = lines::missing_at_the_end(last, self.mark.last(), all > 0 || last.is_some());
        if let Some((from, to)) = missing {
            tracing::warn!(
                from,
                to,
                "lines of the sink were safe on disk, and are not there any more"
            );
        }
        self.next = next.max(self.mark.last().saturating_add(1));
        if self.length < all && missing.is_some() {
            // It is no crash's: what is left stays, as a damaged line.
            self.file.write_at(b"\n", all)?;
            self.length = all + 1;
        } else if self.length < all {
            self.file.set_length(self.length)?;
        }
        self.mark.note(last.unwrap_or(0))?;
        if self.options.sync {
            // That there are such files, and what a process before this one wrote and may have told.
            self.file.sync()?;
            self.mark.sync()?;
            self.disk.sync_folder(&self.options.directory)?;
        }
        Ok(())
    }

    /// Writes a line for each record, and makes them all safe by one sync. Returns how many of them are in the
    /// file for sure. After an error the file must be opened anew: nobody knows what of it is safe.
    pub(crate) fn append(&mut self, moment: Moment, batch: &[Transmit]) -> (usize, io::Result<()>) {
        let first = self.next;
        let (written, result) = self.write_all(moment, batch);
        match self.sync() {
            Ok(()) => {
                // Without it nothing is lost: a line that the disk takes is not missed.
                let _ = self.mark.note(first + written as u64 - 1);
                (written, result)
            }
            Err(error) => (0, result.and(Err(named(&current(&self.options.directory), &error)))),
        }
    }

    /// The lines, not yet safe; how many of them are whole.
    fn write_all(&mut self, moment: Moment, batch: &[Transmit]) -> (usize, io::Result<()>) {
        let (mut text, mut written) = (Vec::new(), 0);
        // Somebody may have emptied the file.
        match self.file.length() {
            Ok(length) => self.length = self.length.min(length),
            Err(error) => return (0, Err(named(&current(&self.options.directory), &error))),
        }
        for (place, order) in batch.iter().enumerate() {
            let (from, line) = (text.len(), line(&self.options, moment, (self.next, order)));
            let made = serde_json::to_writer(&mut text, &line).map_err(io::Error::from);
            if let Err(error) = made.and_then(|()| lines::finish(&mut text, from)) {
                return (written, Err(error));
            }
            self.next += 1;
            if text.len() >= CHUNK || place + 1 == batch.len() {
                if let Err(error) = self.write(&text) {
                    return (written, Err(named(&current(&self.options.directory), &error)));
                }
                text.clear();
                written = place + 1;
            }
        }
        (written, Ok(()))
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.length >= self.options.file_max.0 {
            // Lines of this very batch may stand in it.
            self.sync()?;
            rotate(&*self.disk, &self.options)?;
            let opened = Files::open(self.disk.clone(), self.options.clone())?;
            *self = Files { next: self.next, ..opened };
        }
        self.is_dirty = true;
        if let Err(error) = self.file.write_at(text, self.length) {
            // Half a line would spoil the next one.
            self.file.set_length(self.length)?;
            return Err(error);
        }
        self.length += text.len() as u64;
        Ok(())
    }

    /// The last number that is found, and the one for the next line.
    fn last_and_next(&self) -> io::Result<Option<(u64, u64)>> {
        let mut found = last_and_next(&*self.file, self.length)?;
        // Where the last safe line is not in this file, an older one may tell.
        let is_enough = |(last, _)| self.mark.last() > 0 && last >= self.mark.last();
        for (name, _) in
            lines::files(&*self.disk, &self.options.directory)?.range(1..).map(|(_, file)| file)
        {
            if found.is_some_and(is_enough) {
                break;
            }
            let file = match self.disk.open(&self.options.directory.join(name), How::Read) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let older = last_and_next(&*file, file.length()?)?;
            found = match (found, older) {
                (Some(one), Some(other)) => Some((one.0.max(other.0), one.1.max(other.1))),
                (one, other) => one.or(other),
            };
        }
        Ok(found)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.is_dirty && self.options.sync {
            self.file.sync()?;
        }
        self.is_dirty = false;
        Ok(())
    }
}

/// Whether the folder takes so many bytes: opening a file works on a full disk, too.
///
/// # Errors
/// It does not; with the path.
pub(crate) fn probe(disk: &dyn Disk, options: &FileOptions, bytes: usize) -> io::Result<()> {
    let path = options.directory.join("probe");
    let tried = disk.make_folder(&options.directory, FOLDER).and_then(|()| {
        let file = disk.open(&path, How::WriteOrMake)?;
        file.write_at(&vec![b'\n'; bytes], 0)?;
        file.sync()
    });
    match disk.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(&path, &error)),
        _ => {}
    }
    tried.map_err(|error| named(&path, &error))
}

/// Length of the file up to the end of its last whole line.
fn whole_lines(file: &dyn DiskFile, mut end: u64) -> io::Result<u64> {
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let block = read_at(file, start, (end - start) as usize)?;
        if let Some(place) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + place as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The last number in this file and the one behind it, by its last lines.
fn last_and_next(file: &dyn DiskFile, end: u64) -> io::Result<Option<(u64, u64)>> {
    let mut block = BLOCK;
    loop {
        let from = end.saturating_sub(block);
        let found = lines::last_and_next(&read_at(file, from, (end - from) as usize)?);
        if found.is_some() || from == 0 {
            return Ok(found);
        }
        block *= 4;
    }
}

fn current(directory: &Path) -> PathBuf {
    directory.join("records.jsonl")
}

fn closed(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("records.{number}.jsonl"))
}

/// Gives each file the next number; the oldest goes.
fn rotate(disk: &dyn Disk, options: &FileOptions) -> io::Result<()> {
    let closed = |number| closed(&options.directory, number);
    if options.files <= 1 {
        return disk.remove(&current(&options.directory));
    }
    // Only those that are there: a sink may keep many thousands.
    let there = lines::files(disk, &options.directory)?;
    for &number in there.range(1..options.files - 1).map(|(number, _)| number).rev() {
        match disk.rename(&closed(number), &closed(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    disk.rename(&current(&options.directory), &closed(1))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn line<'a>(
    options: &'a FileOptions,
    moment: Moment,
    (line, order): (u64, &'a Transmit),
) -> Line<'a> {
    let record = &*order.record;
    let payload: &[u8] = &record.payload;
    let text = std::str::from_utf8(payload).ok();
    let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pair = |(name, value): &(bytes::Bytes, bytes::Bytes)| (owned(name), owned(value));
    Line {
        line,
        id: record.identity.to_string(),
        class: options.classes.get(order.class.index()).map_or("", |name| name),
        key: std::str::from_utf8(&record.key).unwrap_or_default(),
        arrived_unix_ns: moment.unix_ns(record.arrived),
        source_unix_ns: record.source_unix_ns,
        properties: record.properties.iter().map(pair).collect(),
        text,
        base64: text.is_none().then(|| STANDARD.encode(payload)),
        again: order.again,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use serde_json::Value;
    use tidegate_types::random::SplitMix;
    use tidegate_types::units::Size;

    use super::*;
    use crate::disk::Real;
    use crate::disk::model::Memory;
    use crate::output::test_protocol::whole;

    /// A folder of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("tidegate-sink-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn options(&self, file_max: u64, files: u32) -> FileOptions {
            let classes = ["ls".into()].into();
            FileOptions {
                directory: self.0.clone(),
                file_max: Size(file_max),
                files,
                sync: true,
                classes,
            }
        }

        fn lines(&self, name: &str) -> Vec<Value> {
            let text = fs::read_to_string(self.0.join(name)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn moment() -> Moment {
        // The records of the tests arrived one second after the clock's origin.
        Moment { node: Time::from_millis(1500), unix_ns: Some(10_000_000_000) }
    }

    #[test]
    fn a_line_tells_all_of_a_record() {
        let folder = Folder::new("line");
        let mut files = Files::open(Arc::new(Real), folder.options(1 << 20, 2)).unwrap();
        let batch = [whole(1, b"21.5"), Transmit { again: true, ..whole(2, &[0xff, 0]) }];
        let (written, result) = files.append(moment(), &batch);
        assert!(written == 2 && result.is_ok());
        let lines = folder.lines("records.jsonl");
        assert_eq!(lines[0]["id"], "gate-7/0000000000001c9f/12/1");
        assert_eq!((&lines[0]["class"], &lines[0]["key"]), (&"ls".into(), &"plant/3/alarm".into()));
        assert_eq!(lines[0]["text"], "21.5");
        assert_eq!(lines[0]["arrived_unix_ns"], 9_500_000_000_u64);
        assert_eq!(lines[0]["source_unix_ns"], 1_700_000_000_123_456_789_u64);
        assert_eq!(lines[0].get("again"), None);
        assert_eq!((&lines[1]["base64"], &lines[1]["again"]), (&"/wA=".into(), &true.into()));
    }

    #[test]
    fn lines_are_numbered_over_files_and_restarts() {
        let folder = Folder::new("numbers");
        let mut number = 0;
        for (file_max, count) in [(1, 3), (1 << 20, 2), (1 << 20, 4)] {
            let mut files = Files::open(Arc::new(Real), folder.options(file_max, 20)).unwrap();
            for id in 1..=count {
                assert!(
                    files.append(moment(), &[whole(id, b"x"), whole(id + 100, b"y")]).1.is_ok()
                );
                number += 2;
            }
        }
        let found = lines::read(&Real, &folder.0).unwrap().unwrap();
        assert_eq!((found.lines, found.span()), (number, Some((1, number))));
        assert!(found.damaged.is_empty() && found.torn.is_none());
    }

    #[test]
    fn old_files_go() {
        let folder = Folder::new("rotate");
        let mut files = Files::open(Arc::new(Real), folder.options(1, 3)).unwrap();
        for id in 1..=5 {
            assert_eq!(files.append(moment(), &[whole(id, b"x")]).0, 1);
        }
        let seq = |name: &str| folder.lines(name)[0]["id"].as_str().unwrap().ends_with('5');
        assert!(seq("records.jsonl") && !seq("records.1.jsonl"));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 4, "three files and the mark");
    }

    #[test]
    fn a_batch_is_synced_before_it_is_confirmed() {
        for seed in 0..200 {
            let (disk, mut random) = (Memory::default(), SplitMix(seed));
            let options = Folder::new("memory").options(700, 1000);
            let (mut confirmed, mut files) = (Vec::new(), None);
            for id in 1..=30 {
                let of_disk: Arc<dyn Disk> = Arc::new(disk.clone());
                let opened = files.take().map_or_else(|| Files::open(of_disk, options.clone()), Ok);
                if random.one_in(8) {
                    disk.fail_syncs(1);
                }
                let Ok(mut sink) = opened else { continue };
                let batch = [whole(2 * id, b"one"), whole(2 * id + 1, b"two")];
                let (written, result) = sink.append(moment(), &batch);
                confirmed.extend(batch[..written].iter().map(|order| order.id.0));
                files = result.is_ok().then_some(sink);
                if random.one_in(10) {
                    (files, _) = (None, disk.restart(&mut random, true));
                }
            }
            drop(files);
            disk.restart(&mut random, true);
            let mut lines = BTreeSet::new();
            let files = disk.files(&options.directory);
            for path in files.iter().filter(|path| path.extension() != Some("mark".as_ref())) {
                let content = disk.content(path);
                let all = content.split(|&byte| byte == b'\n');
                for line in all.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
                    let id = line["id"].as_str().unwrap().rsplit('/').next().unwrap();
                    lines.insert(id.parse::<u64>().unwrap());
                }
            }
            assert!(confirmed.len() > 10, "{confirmed:?}");
            assert!(confirmed.iter().all(|id| lines.contains(id)), "seed {seed}: {confirmed:?}");
        }
    }

    /// A sink of three files of a line each and one of two, on a disk in memory.
    fn five_lines(disk: &Memory, options: &FileOptions) {
        let of_disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut files = Files::open(of_disk, options.clone()).unwrap();
        for (id, payload) in
            [(1, &[b'x'; 900][..]), (2, &[b'x'; 900]), (3, &[b'x'; 900]), (4, b"y")]
        {
            assert_eq!(files.append(moment(), &[whole(id, payload)]).0, 1);
        }
        assert_eq!(files.append(moment(), &[whole(5, b"z")]).0, 1);
    }

    #[test]
    fn no_number_comes_twice_where_all_lines_of_the_newest_files_are_damaged() {
        for has_mark in [true, false] {
            let (disk, options) = (Memory::default(), Folder::new("twice").options(700, 1000));
            five_lines(&disk, &options);
            for name in ["records.jsonl", "records.1.jsonl", "records.2.jsonl"] {
                let path = options.directory.join(name);
                let mut content = disk.content(&path);
                content.iter_mut().filter(|byte| **byte == b'"').for_each(|byte| *byte ^= 1);
                disk.rot(&path, Some(content));
            }
            if !has_mark {
                disk.rot(&options.directory.join("records.mark"), None);
            }
            let mut files = Files::open(Arc::new(disk.clone()), options.clone()).unwrap();
            // Without the mark the oldest line says that there were more before it was rotten.
            assert_eq!(files.next, if has_mark { 6 } else { 2 });
            assert_eq!(files.append(moment(), &[whole(6, b"x")]).0, 1);
            let found = lines::read(&disk, &options.directory).unwrap().unwrap();
            let missing: Vec<_> = found.missing().collect();
            assert_eq!(missing, if has_mark { vec![(2, 5)] } else { vec![] });
        }
    }

    #[test]
    fn a_line_that_is_gone_from_the_very_end_is_missed_and_what_is_left_of_it_stays() {
        let (disk, options) = (Memory::default(), Folder::new("end").options(700, 1000));
        five_lines(&disk, &options);
        let path = options.directory.join("records.jsonl");
        let mut content = disk.content(&path);
        let length = content.len();
        content[length - 100..].fill(0);
        disk.rot(&path, Some(content));
        let missing = || {
            let found = lines::read(&disk, &options.directory).unwrap().unwrap();
            found.missing().collect::<Vec<_>>()
        };
        assert_eq!(missing(), [(5, 5)], "before anybody opens it");
        let mut files = Files::open(Arc::new(disk.clone()), options.clone()).unwrap();
        assert_eq!(files.append(moment(), &[whole(6, b"x")]).0, 1);
        assert_eq!(missing(), [(5, 5)]);
        assert!(disk.content(&path).len() > length, "the evidence is not cut off");
    }

    #[test]
    fn half_a_line_of_an_earlier_life_is_cut_off() {
        let folder = Folder::new("torn");
        fs::create_dir_all(&folder.0).unwrap();
        let torn = format!("{{\"id\":1}}\n{{\"id\":\"{}", "x".repeat(200_000));
        fs::write(folder.0.join("records.jsonl"), torn).unwrap();
        let mut files = Files::open(Arc::new(Real), folder.options(1 << 20, 2)).unwrap();
        assert_eq!(files.next, 1, "lines of earlier versions have no numbers");
        assert_eq!(files.append(moment(), &[whole(2, b"x")]).0, 1);
        assert_eq!(folder.lines("records.jsonl").len(), 2);
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let options = FileOptions {
            directory: "/proc/nothing".into(),
            file_max: Size(1),
            files: 1,
            sync: true,
            classes: [].into(),
        };
        let error = Files::open(Arc::new(Real), options.clone()).unwrap_err().to_string();
        assert!(error.starts_with("/proc/nothing/records.jsonl: "), "{error}");
        assert!(probe(&Real, &options, 10).is_err());
    }
}
