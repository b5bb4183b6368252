//! What a start reads of a log: which files there are, what they hold, and from which segment on it must be read.
//! Nothing is changed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tidegate_log::{
    COPY_AT, DamageKind, Defect, HEADER_MAX, Header, Key, OpenedHeader, Recovery, SegmentBytes,
    SegmentId, begins_with_checkpoint, recover,
};
use tidegate_types::units::Size;

use super::SpoolError;
use super::folder::{failed, is_ours, number_of, segment_path};
use super::quarantine::Quarantine;
use crate::disk::{Disk, How, Real, read_at};

/// Bytes in which both copies of nearly every header stand.
const HEAD: usize = 2 * COPY_AT;

/// A log, looked at.
#[derive(Debug)]
pub(super) struct Found {
    /// What it says.
    pub(super) recovery: Recovery,
    /// Which file each segment stands in: that of its own number, but for what a disk exchanged.
    pub(super) places: BTreeMap<SegmentId, SegmentId>,
    /// Files of which nothing can be read, and those that hold what another file holds or nobody wants.
    pub(super) useless: Vec<SegmentId>,
    /// Files that hold nothing: a crash came before their first byte.
    pub(super) empty: Vec<SegmentId>,
    /// What is no part of a log.
    pub(super) strays: Vec<String>,
    /// What lies in quarantine.
    pub(super) quarantine: Quarantine,
}

/// Reads the newest segments, back to the last one that begins with a whole checkpoint. It needs no lock.
///
/// # Errors
/// A file cannot be read, or the segments say that this process must not use them.
pub(crate) fn read_recovery(directory: &Path, keys: &[Key]) -> Result<Recovery, SpoolError> {
    Ok(look(&Real, directory, keys)?.recovery)
}

/// The segments in a folder and the bytes of their files, by their names.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn segments(directory: &Path) -> Result<BTreeMap<SegmentId, Size>, SpoolError> {
    Ok(Files::list(&Real, directory)?.sizes)
}

/// The files of a folder.
#[derive(Debug, Default)]
struct Files {
    /// Those with bytes.
    sizes: BTreeMap<SegmentId, Size>,
    empty: Vec<SegmentId>,
    strays: Vec<String>,
}

impl Files {
    fn list(disk: &dyn Disk, directory: &Path) -> Result<Files, SpoolError> {
        let fail = |source| failed("read the folder", directory, source);
        let mut files = Files::default();
        for listed in disk.list(directory).map_err(fail)? {
            match number_of(&listed.name).filter(|_| listed.is_file) {
                Some(number) if listed.size == 0 => files.empty.push(number),
                Some(number) => _ = files.sizes.insert(number, Size(listed.size)),
                None if is_ours(&listed.name) => {}
                None => files.strays.push(listed.name),
            }
        }
        Ok(files)
    }
}

/// The head of each file.
type Heads = BTreeMap<SegmentId, Result<OpenedHeader, Defect>>;

/// Looks at a log: at the head of each file, and at all of the newest ones.
///
/// # Errors
/// See [`read_recovery`].
pub(super) fn look(disk: &dyn Disk, directory: &Path, keys: &[Key]) -> Result<Found, SpoolError> {
    let Files { sizes, empty, strays } = Files::list(disk, directory)?;
    let quarantine = Quarantine::read(disk, directory);
    let mut heads = Heads::new();
    for (&file, &size) in &sizes {
        let path = segment_path(directory, file);
        let head = head(disk, &path, size, keys);
        heads.insert(file, head.map_err(|source| failed("read", &path, source))?);
    }
    let places = places(&heads);
    // Numbers that a segment had which is nowhere now: what it said, the log does not know.
    let gone = sizes.keys().chain(&quarantine.held).filter(|number| !places.contains_key(number));
    let gone = gone.map(|&number| (number, None));
    let mut wanted: BTreeMap<SegmentId, Option<SegmentId>> = gone.collect();
    wanted.extend(places.iter().map(|(&segment, &file)| (segment, Some(file))));
    let mut bytes: BTreeMap<SegmentId, Vec<u8>> = BTreeMap::new();
    for (&segment, file) in wanted.iter().rev() {
        let Some(file) = file else {
            bytes.insert(segment, Vec::new());
            continue;
        };
        let path = segment_path(directory, *file);
        let read = disk.read(&path).map_err(|source| failed("read", &path, source))?;
        let begins = begins_with_checkpoint(segment, &read, keys);
        bytes.insert(segment, read);
        // A damaged head says nothing; any other defect is told by `recover`.
        if !matches!(begins, Ok(false) | Err(Defect::Damaged)) {
            break;
        }
    }
    wanted.retain(|segment, file| file.is_some() || bytes.contains_key(segment));
    let part = |(&segment, file): (&SegmentId, &Option<SegmentId>)| SegmentBytes {
        segment,
        size: file.and_then(|file| sizes.get(&file).copied()).unwrap_or_default(),
        bytes: bytes.get(&segment).map(Vec::as_slice),
    };
    let parts: Vec<SegmentBytes<'_>> = wanted.iter().map(part).collect();
    let recovered = recover(&parts, keys);
    let directory = directory.to_path_buf();
    let mut recovery = recovered.map_err(|source| SpoolError::Log { directory, source })?;
    let useless = judge(&mut recovery, &heads, &places);
    Ok(Found { recovery, places, useless, empty, strays, quarantine })
}

/// Reads the head of a file; the rest need not be there.
fn head(
    disk: &dyn Disk,
    path: &Path,
    size: Size,
    keys: &[Key],
) -> io::Result<Result<OpenedHeader, Defect>> {
    let file = disk.open(path, How::Read)?;
    let mut opened = Err(Defect::Damaged);
    for length in [HEAD, HEADER_MAX] {
        opened = Header::open(&read_at(&*file, 0, length)?, keys);
        if opened.is_ok() || size.0 <= length as u64 {
            break;
        }
    }
    Ok(opened)
}

/// Which file each segment stands in. One that stands in the file of another number, because a disk exchanged
/// them, is read there, if its own file does not hold it.
fn places(heads: &Heads) -> BTreeMap<SegmentId, SegmentId> {
    let good = heads.iter().filter_map(|(&file, head)| Some((file, &head.as_ref().ok()?.header)));
    let is_own = |(file, header): &(SegmentId, &Header)| header.segment == *file;
    let owner = |header: &Header| (header.node.clone(), header.incarnation);
    let mut places: BTreeMap<_, _> =
        good.clone().filter(is_own).map(|(file, _)| (file, file)).collect();
    let newest = good.clone().rfind(is_own).map(|(_, header)| owner(header));
    for (file, header) in good {
        if newest.as_ref().is_none_or(|newest| *newest == owner(header)) {
            places.entry(header.segment).or_insert(file);
        }
    }
    // What cannot be read stands where its name says, unless the segment is found elsewhere.
    let bad = heads.iter().filter(|(_, head)| head.is_err());
    bad.for_each(|(&file, _)| _ = places.entry(file).or_insert(file));
    places
}

/// Names the files that are not as they should be: of the newest ones recovery has read all. Answers with those
/// of no use.
fn judge(
    recovery: &mut Recovery,
    heads: &Heads,
    places: &BTreeMap<SegmentId, SegmentId>,
) -> Vec<SegmentId> {
    let mut useless = Vec::new();
    for (&file, head) in heads {
        let verdict = match head {
            Err(Defect::Damaged) => DamageKind::Header,
            Ok(opened) if places.get(&opened.header.segment) != Some(&file) => DamageKind::Other,
            Ok(opened) if opened.header.segment != file => DamageKind::Moved,
            Ok(opened) if opened.is_copy => DamageKind::Spare,
            _ => continue,
        };
        if matches!(verdict, DamageKind::Header | DamageKind::Other) {
            useless.push(file);
        }
        // The file is of no use, and the segment of its number may stand elsewhere.
        let is_elsewhere = places.get(&file).is_some_and(|place| *place != file);
        recovery.condemn(file, if is_elsewhere { DamageKind::Moved } else { verdict });
    }
    useless
}
