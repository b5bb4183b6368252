//! What a member tells of its loads, as bytes: of each unit who owns it and, where that is the member itself, what was
//! counted of it since the member began. Whoever asks takes differences.
//! Source: own.
//! Inputs: counts. Outputs: the body of a frame of `wire`, and back. O(bytes).
//! Deviations: none.
//! Limits: [`UNITS_MAX`], [`MEMBERS_MAX`], [`NAME_MAX`], [`super::histogram::BUCKETS`].

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tidegate_types::codec::{Malformed, Reader, Sink};

use super::UnitOwner;
use super::error::MemberFrameError;
use super::histogram::TimeHistogram;

/// The version of these bytes.
const VERSION: u8 = 1;
/// Units of a member at most.
pub const UNITS_MAX: usize = 65_536;
/// Members of a group at most.
pub const MEMBERS_MAX: usize = 65_536;
/// Bytes of a name at most.
pub const NAME_MAX: usize = 1024;

/// A member, when it was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberLoads {
    /// Its name.
    pub node: Arc<str>,
    /// Which life of it: counts begin anew with each.
    pub life: u64,
    /// How long it lives, by its own clock.
    pub age: Duration,
    /// Threads of its operators.
    pub threads: u32,
    /// Processors of its machine, as far as it may use them.
    pub processors: u32,
    /// Whether it is to own nothing.
    pub is_draining: bool,
    /// Whether it knows that after a restart.
    pub remembers: bool,
    /// The names of all members, in their order.
    pub members: Vec<Arc<str>>,
    /// Every unit.
    pub units: Vec<UnitLoad>,
}

/// A unit at a member.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitLoad {
    /// Its name.
    pub name: Arc<str>,
    /// Who owns it, as the member knows it.
    pub owner: UnitOwner,
    /// Whether the member is the owner, and takes records.
    pub is_open: bool,
    /// What it counted, where it is the owner.
    pub counts: Option<UnitCounts>,
}

/// What an owner counted of a unit since it began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitCounts {
    /// The smallest bound of the unit's operators.
    pub bound: Duration,
    /// Rows in which records are worked on one after the other; 1 is a serial unit, 0 one that no operator works on.
    pub lanes: u32,
    /// Records that came to operators.
    pub records: u64,
    /// Of these, records that were worked on.
    pub worked: u64,
    /// Records and results that were dropped.
    pub dropped: u64,
    /// Results.
    pub results: u64,
    /// Time of operators on a processor.
    pub cpu: Duration,
    /// Sum of its squares, seconds squared.
    pub cpu_squares: f64,
    /// From a record's arrival to the end of its work, of operators with the smallest bound.
    pub done: TimeHistogram,
    /// Records of all operators that were done later than their bounds.
    pub done_late: u64,
    /// From a record's arrival until a subscriber of the member had the result, of operators with the smallest bound.
    pub delivered: TimeHistogram,
    /// Results of all operators that subscribers of the member got.
    pub deliveries: u64,
    /// Of these, those that came later than their bounds.
    pub delivered_late: u64,
}

impl MemberLoads {
    /// Adds its bytes.
    pub(super) fn put(&self, to: &mut BytesMut) {
        to.u8(VERSION);
        put_name(to, &self.node);
        to.u64(self.life);
        to.u64(nanos(self.age));
        to.u32(self.threads);
        to.u32(self.processors);
        to.u8(u8::from(self.is_draining) | u8::from(self.remembers) << 1);
        to.count(self.members.len());
        self.members.iter().for_each(|member| put_name(to, member));
        to.count(self.units.len());
        self.units.iter().for_each(|unit| unit.put(to));
    }

    /// Reads them.
    pub(super) fn take(from: &mut Reader<'_>) -> Result<MemberLoads, MemberFrameError> {
        let version = from.u8()?;
        if version != VERSION {
            return Err(MemberFrameError::Loads(version));
        }
        let node = name(from)?;
        let (life, age) = (from.u64()?, Duration::from_nanos(from.u64()?));
        let (threads, processors) = (from.u32()?, from.u32()?);
        let flags = from.u8()?;
        let count = from.count(MEMBERS_MAX)?;
        let members = from.values(count, 2, name)?;
        let count = from.count(UNITS_MAX)?;
        let units = from.values(count, 13, |from| UnitLoad::take(from, members.len()))?;
        let (is_draining, remembers) = (flags & 1 != 0, flags & 2 != 0);
        Ok(MemberLoads {
            node,
            life,
            age,
            threads,
            processors,
            is_draining,
            remembers,
            members,
            units,
        })
    }
}

impl UnitLoad {
    fn put(&self, to: &mut BytesMut) {
        put_name(to, &self.name);
        to.u64(self.owner.epoch);
        to.u16(self.owner.member.0);
        to.u8(u8::from(self.is_open) | u8::from(self.counts.is_some()) << 1);
        let Some(counts) = &self.counts else { return };
        to.u64(nanos(counts.bound));
        to.u32(counts.lanes);
        let UnitCounts { records, worked, dropped, results, done_late, .. } = counts;
        let UnitCounts { deliveries, delivered_late, .. } = counts;
        [records, worked, dropped, results, done_late, deliveries, delivered_late]
            .into_iter()
            .for_each(|count| to.u64(*count));
        to.u64(nanos(counts.cpu));
        to.f64(counts.cpu_squares);
        for times in [&counts.done, &counts.delivered] {
            to.u16(times.buckets().len() as u16);
            for (bucket, count) in times.buckets() {
                to.u16(bucket);
                to.u64(count);
            }
        }
    }

    fn take(from: &mut Reader<'_>, members: usize) -> Result<UnitLoad, Malformed> {
        let (name, epoch) = (name(from)?, from.u64()?);
        let member = super::Member(from.u16()?);
        from.must(usize::from(member.0) < members, "one of the members")?;
        let flags = from.u8()?;
        let (owner, is_open) = (UnitOwner { epoch, member }, flags & 1 != 0);
        let counts = (flags & 2 != 0).then(|| UnitCounts::take(from)).transpose()?;
        Ok(UnitLoad { name, owner, is_open, counts })
    }
}

impl UnitCounts {
    fn take(from: &mut Reader<'_>) -> Result<UnitCounts, Malformed> {
        let bound = Duration::from_nanos(from.u64()?);
        let lanes = from.u32()?;
        let mut next = || from.u64();
        let (records, worked, dropped, results) = (next()?, next()?, next()?, next()?);
        let (done_late, deliveries, delivered_late) = (next()?, next()?, next()?);
        let cpu = Duration::from_nanos(from.u64()?);
        let cpu_squares = from.f64()?;
        from.must(cpu_squares.is_finite() && cpu_squares >= 0.0, "a sum of squares")?;
        let (done, delivered) = (times(from)?, times(from)?);
        let counts =
            UnitCounts { bound, lanes, records, worked, dropped, results, ..UnitCounts::default() };
        let counts = UnitCounts { cpu, cpu_squares, done, done_late, ..counts };
        Ok(UnitCounts { delivered, deliveries, delivered_late, ..counts })
    }
}

fn times(from: &mut Reader<'_>) -> Result<TimeHistogram, Malformed> {
    let mut times = TimeHistogram::default();
    for _ in 0..from.u16()? {
        let (bucket, count) = (from.u16()?, from.u64()?);
        from.must(times.add_to(bucket, count), "a count of times that there can be")?;
    }
    Ok(times)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn put_name(to: &mut BytesMut, name: &str) {
    // Names are of configurations, which are far below it.
    to.name(&name[..name.floor_char_boundary(NAME_MAX)]);
}

fn name(from: &mut Reader<'_>) -> Result<Arc<str>, Malformed> {
    let name = from.name()?;
    from.must(name.len() <= NAME_MAX, "a shorter name").map(|()| name.into())
}

#[cfg(test)]
mod tests {
    use tidegate_types::random::SplitMix;

    use super::super::wire::MemberFrame;
    use super::super::{Member, UnitOwner};
    use super::*;

    fn loads() -> MemberLoads {
        let mut done = TimeHistogram::default();
        for (micros, count) in [(900, 4), (52_000, 3), (3_000_000, 1)] {
            done.add(micros, count);
        }
        let counts = UnitCounts {
            bound: Duration::from_millis(50),
            lanes: 2,
            records: 10,
            worked: 8,
            dropped: 1,
            results: 7,
            cpu: Duration::from_millis(16),
            cpu_squares: 0.25,
            delivered: done.clone(),
            done,
            done_late: 4,
            deliveries: 8,
            delivered_late: 5,
        };
        let owner = |epoch, member| UnitOwner { epoch, member: Member(member) };
        let other =
            UnitLoad { name: "taxi-8".into(), owner: owner(0, 0), is_open: false, counts: None };
        let own = UnitLoad {
            name: "taxi-7".into(),
            owner: owner(3, 1),
            is_open: true,
            counts: Some(counts),
        };
        MemberLoads {
            node: "b".into(),
            life: 99,
            age: Duration::from_secs(7),
            threads: 2,
            processors: 4,
            is_draining: true,
            remembers: false,
            members: vec!["a".into(), "b".into()],
            units: vec![own, other],
        }
    }

    fn bytes(frame: &MemberFrame) -> BytesMut {
        let mut bytes = BytesMut::new();
        frame.put(&mut bytes);
        bytes
    }

    #[test]
    fn loads_come_back_and_every_part_of_them_is_awaited() {
        for frame in [
            MemberFrame::Loads(Box::new(loads())),
            MemberFrame::Loads(Box::default()),
            MemberFrame::Tell,
            MemberFrame::Drain { is_over: false },
            MemberFrame::Drain { is_over: true },
        ] {
            let whole = bytes(&frame);
            for end in 0..whole.len() {
                assert_eq!(MemberFrame::take(&mut BytesMut::from(&whole[..end])), Ok(None));
            }
            assert_eq!(MemberFrame::take(&mut whole.clone()), Ok(Some(frame)));
        }
    }

    /// Version 1, byte by byte: members of a group may be of different releases.
    #[test]
    fn version_1_stays_as_it_is() {
        let whole = bytes(&MemberFrame::Loads(Box::new(loads())));
        let hex: String = whole.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = [
            // Length, kind, version; the member, its life and age; threads, processors, flags.
            "e60000000d01010062630000000000000000863ba101000000020000000400000001",
            // Members.
            "02000000010061010062",
            // Units: the first with its bound, lanes and counts,
            "020000000600746178692d37030000000000000001000380f0fa020000000002000000",
            "0a00000000000000080000000000000001000000000000000700000000000000",
            "040000000000000008000000000000000500000000000000",
            // its time on a processor, and its squares,
            "0024f40000000000000000000000d03f",
            // times until done and until delivered;
            "03006c000400000000000000c900030000000000000026010100000000000000",
            "03006c000400000000000000c900030000000000000026010100000000000000",
            // the second without.
            "0600746178692d380000000000000000000000",
        ];
        assert_eq!(hex, expected.concat());
    }

    #[test]
    fn a_newer_version_says_so_and_what_cannot_be_is_refused() {
        let mut newer = bytes(&MemberFrame::Loads(Box::new(loads())));
        newer[5] = VERSION + 1;
        let told = MemberFrame::take(&mut newer).unwrap_err().to_string();
        assert!(told.contains("version 2") && told.contains("update"), "{told}");
        let refused = |change: fn(&mut MemberLoads)| {
            let mut loads = loads();
            change(&mut loads);
            MemberFrame::take(&mut bytes(&MemberFrame::Loads(Box::new(loads)))).is_err()
        };
        assert!(refused(|loads| loads.units[0].owner.member = Member(2)), "no such member");
        assert!(refused(|loads| {
            let counts = loads.units[0].counts.as_mut().unwrap();
            counts.cpu_squares = f64::NAN;
        }));
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_other_loads_and_cost_no_memory() {
        let whole = bytes(&MemberFrame::Loads(Box::new(loads())));
        let mut random = SplitMix(5);
        for _ in 0..20_000 {
            let mut damaged = whole.clone();
            for _ in 0..1 + random.below(4) {
                // Not the length, which only says how much to wait for.
                let place = 4 + random.below(whole.len() - 4);
                damaged[place] = random.number() as u8;
            }
            if let Ok(Some(MemberFrame::Loads(read))) = MemberFrame::take(&mut damaged) {
                assert!(read.members.len() + read.units.len() < whole.len());
                let again = MemberFrame::Loads(read.clone());
                assert_eq!(MemberFrame::take(&mut bytes(&again)), Ok(Some(again)));
            }
        }
    }
}
