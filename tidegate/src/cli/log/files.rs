//! A log's files for who only looks: opened without the lock, read in windows, changed never.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate_broker::SessionLedger;
use tidegate_log::{
    Checkpoint, Defect, END, Entry, Footer, HEADER_MAX, Header, Key, LogError, OpenedHeader,
    ReadPosition, Recovery, Scanned, SegmentId, Walked, find_footer, read_footer, walk,
};
use tidegate_types::units::Size;

use crate::assembly::drivers::log_keys;
use crate::assembly::secrets::{key_of_file, log_key};
use crate::cli::log::{KEY_VARIABLE, LogArguments, LogPlace};
use crate::config::{Config, read, read_file};
use crate::node::journal;
use crate::node::log_store::SpoolError;
use crate::node::log_store::folder::segment_path;
use crate::node::log_store::look::{read_recovery, segments};
use crate::support::disk::read_at;

/// Bytes that are read at once, unless an entry or damage is larger.
const WINDOW: usize = 1 << 20;
/// How often a log that changes while it is read is read anew.
const ATTEMPTS: usize = 5;

/// A log that is looked into.
#[derive(Debug)]
pub(super) struct LogFiles {
    pub(super) directory: PathBuf,
    keys: Vec<Key>,
}

/// A configuration without mistakes.
pub(super) fn config_of(file: &Path, or_else: &str) -> anyhow::Result<Config> {
    let text = read_file(file).map_err(anyhow::Error::msg)?;
    let reading = read(&text);
    let name = file.display().to_string();
    if reading.counts().0 > 0 {
        anyhow::bail!("{}{name}: correct it{or_else}", reading.render(&name, &text));
    }
    Ok(reading.config)
}

impl LogFiles {
    /// The log of a command of `tidegate log`.
    pub(super) fn of(arguments: &LogArguments) -> anyhow::Result<LogFiles> {
        LogFiles::find(arguments.folder.as_deref(), &arguments.place)
    }

    /// The log that the command line names, with its keys.
    pub(super) fn find(folder: Option<&Path>, place: &LogPlace) -> anyhow::Result<LogFiles> {
        let mut keys = Vec::new();
        // A log is a folder, so a file is a configuration, as every other command takes it.
        let given = folder.filter(|path| path.is_file());
        let mut directory = folder.map(Path::to_path_buf);
        if let Some(file) = given.or(place.config.as_deref()) {
            let config = config_of(file, ", or name the log's folder")?;
            keys = log_keys(&config.log)?;
            let name = file.display();
            let missing = || format!("{name}: has no [log] directory: name the log's folder");
            directory = Some(config.log.directory.with_context(missing)?);
        }
        for file in &place.key_files {
            keys.push(key_of_file(file).with_context(|| format!("--key-file {}", file.display()))?);
        }
        if let Ok(text) = std::env::var(KEY_VARIABLE) {
            keys.push(log_key(&text).with_context(|| format!("variable {KEY_VARIABLE}"))?);
        }
        Ok(LogFiles { directory: directory.context("name the log's folder")?, keys })
    }

    /// The sessions that are kept beside the log.
    pub(super) fn sessions(&self) -> anyhow::Result<SessionLedger> {
        let context = || format!("the journal of sessions of {}", self.directory.display());
        journal::look(&self.directory, &self.keys).with_context(context)
    }

    /// The segments that are there, and the bytes of their files.
    pub(super) fn sizes(&self) -> anyhow::Result<BTreeMap<SegmentId, Size>> {
        segments(&self.directory).map_err(explained)
    }

    /// What the log says is owed, and its streams.
    pub(super) fn recover(&self) -> anyhow::Result<Recovery> {
        for _ in 1..ATTEMPTS {
            match read_recovery(&self.directory, &self.keys) {
                // A running node has released it meanwhile.
                Err(SpoolError::Io { source, .. })
                    if is_gone(&source) && self.directory.exists() => {}
                read => return read.map_err(explained),
            }
        }
        read_recovery(&self.directory, &self.keys).map_err(explained)
    }

    /// A segment; `None` if it is gone meanwhile.
    pub(super) fn open(&self, id: SegmentId) -> anyhow::Result<Option<Segment>> {
        let path = segment_path(&self.directory, id);
        let context = || format!("{}", path.display());
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error).with_context(context),
        };
        let size = file.metadata().with_context(context)?.len() as usize;
        let head = read_at(&file, 0, HEADER_MAX.min(size)).with_context(context)?;
        let opened = Header::open(&head, &self.keys).and_then(|opened| {
            if opened.header.segment == id { Ok(opened) } else { Err(Defect::Damaged) }
        });
        Ok(Some(Segment { id, path, file, size, opened }))
    }
}

/// The error with the cure that fits who only looks.
fn explained(error: SpoolError) -> anyhow::Error {
    let locked = [Defect::NoKey, Defect::WrongKey];
    match &error {
        SpoolError::Io { doing, path, source }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            let path = path.display();
            let cure = "run this as root, or as the user that the node runs as";
            anyhow::anyhow!("log: could not {doing} {path}: {source}: {cure}")
        }
        SpoolError::Log { source: LogError::Unusable { source, .. }, .. }
            if locked.contains(source) =>
        {
            let cure = "Give the key with -c FILE, --key-file FILE or the variable";
            anyhow::anyhow!("{error}. {cure} {KEY_VARIABLE}")
        }
        _ => error.into(),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// A segment's file.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    path: PathBuf,
    file: File,
    /// Its bytes when it was opened: what a running node writes later is not looked at.
    pub(super) size: usize,
    /// Its head, or why it cannot be used.
    pub(super) opened: Result<OpenedHeader, Defect>,
}

impl Segment {
    /// Its head.
    pub(super) fn head(&self) -> Option<&Header> {
        self.opened.as_ref().ok().map(|opened| &opened.header)
    }

    /// Its footer and where it begins, if it is finished; only that is read.
    pub(super) fn footer(&self) -> anyhow::Result<Option<(usize, Footer)>> {
        let Ok(opened) = &self.opened else { return Ok(None) };
        let last = self.read(self.size.saturating_sub(END), END)?;
        let Some(offset) = find_footer(opened, &last) else { return Ok(None) };
        let length = self.size.saturating_sub(offset + END);
        let footer = read_footer(opened, offset, &self.read(offset, length)?);
        Ok(footer.map(|footer| (offset, footer)))
    }

    /// The checkpoint that it begins with; not much more is read.
    pub(super) fn checkpoint(&self) -> anyhow::Result<Option<Checkpoint>> {
        let Ok(opened) = &self.opened else { return Ok(None) };
        let first = |opened: &OpenedHeader, found: Scanned<'_>| {
            ControlFlow::Break(match found {
                Scanned::Frame(frame) => frame.entry(opened),
                Scanned::Damage { .. } => None,
            })
        };
        let entry = self.walk(ReadPosition::first(opened), 4096, first)?.flatten();
        Ok(match entry {
            Some(Entry::Checkpoint(checkpoint)) if checkpoint.segment == self.id => {
                Some(checkpoint)
            }
            _ => None,
        })
    }

    /// Meets all that stands in it from a place on, until `meet` has enough.
    pub(super) fn read_from<B>(
        &self,
        place: ReadPosition,
        meet: impl FnMut(&OpenedHeader, Scanned<'_>) -> ControlFlow<B>,
    ) -> anyhow::Result<Option<B>> {
        self.walk(place, WINDOW, meet)
    }

    fn walk<B>(
        &self,
        mut place: ReadPosition,
        mut window: usize,
        mut meet: impl FnMut(&OpenedHeader, Scanned<'_>) -> ControlFlow<B>,
    ) -> anyhow::Result<Option<B>> {
        let Ok(opened) = &self.opened else { return Ok(None) };
        loop {
            let bytes = self.read(place.offset, window)?;
            let is_last = place.offset + bytes.len() >= self.size;
            let before = place.offset;
            let met = |found: Scanned<'_>| meet(opened, found);
            window = match walk(opened, &mut place, &bytes, is_last, met) {
                Walked::Stopped(told) => return Ok(Some(told)),
                Walked::End => return Ok(None),
                // A file that was cut off meanwhile has nothing more.
                Walked::Needs(_) if bytes.is_empty() => return Ok(None),
                Walked::Needs(needs) if place.offset == before => needs.max(2 * bytes.len()),
                Walked::Needs(needs) => needs.max(WINDOW),
            };
        }
    }

    /// Some bytes of it, less only at its end.
    pub(super) fn read(&self, from: usize, length: usize) -> anyhow::Result<Vec<u8>> {
        let length = length.min(self.size.saturating_sub(from));
        read_at(&self.file, from as u64, length).with_context(|| self.path.display().to_string())
    }
}
