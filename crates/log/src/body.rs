//! The bodies of entries, byte by byte: `docs/LOG.md` gives the same as tables.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::codec::{Count, Malformed, Reader, Sink};
use tidegate_types::record::{Fate, Identity, Origin, Properties, StreamId};
use tidegate_types::units::{Size, Time};

use super::destinations::Destinations;
use super::entry::{
    CARRIED, Checkpoint, Chunk, Deed, Entry, FateEntry, FateRun, Footer, IndexPoint, Lever,
    LoggedRecord, StreamName, StreamPart, StreamState, TOLD, fate_code, fate_of,
};
use super::session::{Released, SessionOwner, SessionPosition, SessionState};
use super::wall::WallTime;
use super::{Run, SegmentId};

/// Flags of a record: which of its optional values are there.
const HAS_EXPIRY: u8 = 1;
const HAS_WALL: u8 = 2;
const HAS_SOURCE_TIME: u8 = 4;
const HAS_FOREIGN_NAME: u8 = 8;
const HAS_PACKET: u8 = 16;
/// In the number of packets of a session: whose it is stands behind them.
const HAS_OWNER: u32 = 1 << 31;
/// More than any segment holds: sums of sizes never overflow.
const CHUNK_MAX: Size = Size(1 << 40);

impl Entry {
    /// The byte that says which kind it is.
    pub fn kind(&self) -> u8 {
        match self {
            Entry::Record(_) => 1,
            Entry::Fates(_) => 2,
            Entry::Stream(_) => 3,
            Entry::Checkpoint(_) => 4,
            Entry::Session(_) => 5,
            Entry::Released(_) => 6,
            Entry::Position(_) => 7,
            Entry::Footer(_) => 8,
            Entry::Note(_) => 9,
        }
    }

    /// Bytes of its body before sealing.
    pub fn body_size(&self) -> usize {
        let mut count = Count::default();
        self.encode(&mut count);
        count.0
    }

    pub(super) fn encode(&self, to: &mut impl Sink) {
        match self {
            Entry::Record(record) => encode_record(record, to),
            Entry::Fates(FateEntry { wall, runs }) => {
                encode_wall(*wall, to);
                to.count(runs.len());
                runs.iter().for_each(|run| encode_fate(run, to));
            }
            Entry::Stream(name) => encode_name(name, to),
            Entry::Checkpoint(checkpoint) => encode_checkpoint(checkpoint, to),
            Entry::Session(state) => encode_session(state, to),
            Entry::Released(Released { client, packets }) => {
                to.name(client);
                encode_packets(packets.iter(), to);
            }
            Entry::Position(position) => encode_position(position, to),
            Entry::Footer(footer) => encode_footer(footer, to),
            Entry::Note(note) => to.put(note),
        }
    }

    /// The entry of a kind and a body.
    pub(super) fn decode(kind: u8, body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let entry = match kind {
            1 => Entry::Record(Box::new(decode_record(&mut reader)?)),
            2 => {
                let wall = decode_wall(&mut reader)?;
                Entry::Fates(FateEntry { wall, runs: reader.many(29, decode_fate)? })
            }
            3 => Entry::Stream(decode_name(&mut reader)?),
            4 => Entry::Checkpoint(decode_checkpoint(&mut reader)?),
            5 => Entry::Session(decode_session(&mut reader)?),
            6 => {
                let client = reader.name()?.into();
                Entry::Released(Released { client, packets: reader.many(2, Reader::u16)? })
            }
            7 => Entry::Position(decode_position(&mut reader)?),
            8 => Entry::Footer(decode_footer(&mut reader)?),
            9 => Entry::Note(Bytes::copy_from_slice(reader.rest())),
            _ => return Err(reader.malformed("an entry of a known kind")),
        };
        reader.end()?;
        Ok(entry)
    }
}

fn encode_record(record: &LoggedRecord, to: &mut impl Sink) {
    let LoggedRecord { expires, wall, source_unix_ns, foreign, packet, .. } = record;
    let flag = |is_there: bool, flag| if is_there { flag } else { 0 };
    to.u64(record.stream.0);
    to.u64(record.seq);
    to.u32(record.destinations.0);
    to.u64(record.arrived.as_nanos());
    to.u64(record.deadline.as_nanos());
    to.u8(flag(expires.is_some(), HAS_EXPIRY)
        | flag(wall.is_some(), HAS_WALL)
        | flag(source_unix_ns.is_some(), HAS_SOURCE_TIME)
        | flag(foreign.is_some(), HAS_FOREIGN_NAME)
        | flag(packet.is_some(), HAS_PACKET));
    if let Some(at) = expires {
        to.u64(at.as_nanos());
    }
    if wall.is_some() {
        encode_wall(*wall, to);
    }
    if let Some(at) = source_unix_ns {
        to.u64(*at);
    }
    if let Some(Identity { origin, stream, seq }) = foreign {
        to.name(&origin.node);
        to.u64(origin.incarnation);
        to.u64(stream.0);
        to.u64(*seq);
    }
    if let Some(packet) = packet {
        to.u16(*packet);
    }
    to.name(&record.class);
    to.bytes(&record.key);
    to.count(record.properties.iter().count());
    for (name, value) in record.properties.iter() {
        to.bytes(name);
        to.bytes(value);
    }
    to.bytes(&record.payload);
}

fn decode_record(from: &mut Reader<'_>) -> Result<LoggedRecord, Malformed> {
    let (stream, seq) = (StreamId(from.u64()?), from.u64()?);
    let destinations = Destinations(from.u32()?);
    let (arrived, deadline) = (Time::from_nanos(from.u64()?), Time::from_nanos(from.u64()?));
    let flags = from.u8()?;
    from.must(flags < HAS_PACKET * 2, "known flags")?;
    let has = |flag: u8| flags & flag != 0;
    let expires = has(HAS_EXPIRY).then(|| from.u64()).transpose()?.map(Time::from_nanos);
    let wall = if has(HAS_WALL) { decode_wall(from)? } else { None };
    let source_unix_ns = has(HAS_SOURCE_TIME).then(|| from.u64()).transpose()?;
    let foreign = |from: &mut Reader<'_>| {
        let origin = Origin { node: from.name()?.into(), incarnation: from.u64()? };
        Ok(Identity { origin: origin.into(), stream: StreamId(from.u64()?), seq: from.u64()? })
    };
    let foreign = has(HAS_FOREIGN_NAME).then(|| foreign(from)).transpose()?;
    let packet = has(HAS_PACKET).then(|| from.u16()).transpose()?;
    let class = from.name()?.into();
    let key = shared(from)?;
    let properties = from.many(8, |from| Ok((shared(from)?, shared(from)?)))?;
    Ok(LoggedRecord {
        stream,
        seq,
        destinations,
        arrived,
        deadline,
        expires,
        wall,
        source_unix_ns,
        class,
        key,
        properties: Properties::new(properties),
        payload: shared(from)?,
        foreign,
        packet,
    })
}

/// Bytes with memory of their own: those of the segment go.
fn shared(from: &mut Reader<'_>) -> Result<Bytes, Malformed> {
    from.bytes().map(Bytes::copy_from_slice)
}

/// A time in the world; zeros where it is not known.
fn encode_wall(wall: Option<WallTime>, to: &mut impl Sink) {
    let WallTime { unix_ns, uncertainty } =
        wall.unwrap_or(WallTime { unix_ns: 0, uncertainty: Duration::ZERO });
    to.u64(unix_ns);
    to.u64(u64::try_from(uncertainty.as_nanos()).unwrap_or(u64::MAX));
}

fn decode_wall(from: &mut Reader<'_>) -> Result<Option<WallTime>, Malformed> {
    let (unix_ns, uncertainty) = (from.u64()?, Duration::from_nanos(from.u64()?));
    Ok((unix_ns > 0).then_some(WallTime { unix_ns, uncertainty }))
}

fn encode_run(run: Run, to: &mut impl Sink) {
    to.u64(run.first);
    to.u64(run.last);
    to.u32(run.destinations.0);
}

fn decode_run(from: &mut Reader<'_>) -> Result<Run, Malformed> {
    let (first, last) = (from.u64()?, from.u64()?);
    from.must(0 < first && first <= last, "a run of sequence numbers")?;
    let destinations = Destinations(from.u32()?);
    Ok(Run { first, last, destinations })
}

fn encode_fate(fate: &FateRun, to: &mut impl Sink) {
    let FateRun { stream, run, fate, by, deeds } = fate;
    to.u64(stream.0);
    encode_run(*run, to);
    if !deeds.is_empty() {
        to.u8(TOLD);
        to.u8(fate_code(*fate));
        to.name(by.as_deref().unwrap_or_default());
        to.count(deeds.len());
        for Deed { lever, what, after } in deeds {
            to.u8(*lever as u8);
            to.u64(
                after.map_or(u64::MAX, |after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)),
            );
            to.name(what);
        }
        return;
    }
    match by {
        Some(name) => {
            to.u8(CARRIED);
            to.name(name);
        }
        None => to.u8(fate_code(*fate)),
    }
}

fn decode_fate(from: &mut Reader<'_>) -> Result<FateRun, Malformed> {
    let stream = StreamId(from.u64()?);
    let run = decode_run(from)?;
    let mut deeds = Vec::new();
    let (fate, by) = match from.u8()? {
        TOLD => {
            let code = from.u8()?;
            let fate = fate_of(code).ok_or_else(|| from.malformed("a known fate"))?;
            let by: Arc<str> = from.name()?.into();
            deeds = decode_deeds(from)?;
            (fate, Some(by).filter(|by| !by.is_empty()))
        }
        CARRIED => (Fate::Confirmed, Some(from.name()?.into())),
        code => (fate_of(code).ok_or_else(|| from.malformed("a known fate"))?, None),
    };
    Ok(FateRun { stream, run, fate, by, deeds })
}

fn decode_deeds(from: &mut Reader<'_>) -> Result<Vec<Deed>, Malformed> {
    from.many(11, |from| {
        let lever = from.u8()?;
        let lever = Lever::ALL.get(usize::from(lever)).copied();
        let lever = lever.ok_or_else(|| from.malformed("a known lever"))?;
        let after = from.u64()?;
        let after = (after != u64::MAX).then(|| Duration::from_nanos(after));
        Ok(Deed { lever, what: from.name()?.into(), after })
    })
}

fn encode_name(name: &StreamName, to: &mut impl Sink) {
    to.u64(name.stream.0);
    to.name(&name.rule);
    to.name(&name.source);
}

fn decode_name(from: &mut Reader<'_>) -> Result<StreamName, Malformed> {
    let stream = StreamId(from.u64()?);
    Ok(StreamName { stream, rule: from.name()?.into(), source: from.name()?.into() })
}

fn encode_checkpoint(checkpoint: &Checkpoint, to: &mut impl Sink) {
    to.u32(checkpoint.segment.0);
    to.u64(checkpoint.last_stream.0);
    to.count(checkpoint.streams.len());
    for StreamState { name, last_seq, live } in &checkpoint.streams {
        encode_name(name, to);
        to.u64(*last_seq);
        to.count(live.len());
        for (segment, chunk) in live {
            to.u32(segment.0);
            to.u64(chunk.bytes.0);
            to.count(chunk.runs.iter().count());
            chunk.runs.iter().for_each(|run| encode_run(run, to));
        }
    }
    to.count(checkpoint.clients.len());
    checkpoint.clients.iter().for_each(|state| encode_session(state, to));
    to.count(checkpoint.positions.len());
    checkpoint.positions.iter().for_each(|position| encode_position(position, to));
}

fn decode_checkpoint(from: &mut Reader<'_>) -> Result<Checkpoint, Malformed> {
    let chunk = |from: &mut Reader<'_>| {
        let (segment, bytes) = (SegmentId(from.u32()?), Size(from.u64()?));
        from.must(bytes <= CHUNK_MAX, "fewer bytes than a segment can hold")?;
        let mut chunk = Chunk { bytes, ..Chunk::default() };
        from.many(20, decode_run)?.into_iter().for_each(|run| chunk.runs.add(run));
        Ok((segment, chunk))
    };
    let stream = |from: &mut Reader<'_>| {
        let (name, last_seq) = (decode_name(from)?, from.u64()?);
        Ok(StreamState { name, last_seq, live: from.many(16, chunk)? })
    };
    Ok(Checkpoint {
        segment: SegmentId(from.u32()?),
        last_stream: StreamId(from.u64()?),
        streams: from.many(24, stream)?,
        clients: from.many(26, decode_session)?,
        positions: from.many(18, decode_position)?,
    })
}

fn encode_session(state: &SessionState, to: &mut impl Sink) {
    to.name(&state.client);
    to.u32(u32::try_from(state.lasts.as_secs()).unwrap_or(u32::MAX));
    encode_wall(state.ends, to);
    let user = match &state.owner {
        SessionOwner::Unknown => return encode_packets(state.packets.iter(), to),
        SessionOwner::Anonymous => "",
        SessionOwner::User(user) => user,
    };
    to.u32(state.packets.len() as u32 | HAS_OWNER);
    state.packets.iter().for_each(|packet| to.u16(*packet));
    to.name(user);
}

fn decode_session(from: &mut Reader<'_>) -> Result<SessionState, Malformed> {
    let client = from.name()?.into();
    let lasts = Duration::from_secs(from.u32()?.into());
    let ends = decode_wall(from)?;
    let count = from.u32()?;
    let packets = (0..count & !HAS_OWNER).map(|_| from.u16()).collect::<Result<_, _>>()?;
    let owner = if count & HAS_OWNER == 0 {
        SessionOwner::Unknown
    } else {
        SessionOwner::new(Some(from.name()?).filter(|user| !user.is_empty()))
    };
    Ok(SessionState { client, owner, lasts, ends, packets })
}

fn encode_packets<'a>(packets: impl ExactSizeIterator<Item = &'a u16>, to: &mut impl Sink) {
    to.count(packets.len());
    packets.for_each(|packet| to.u16(*packet));
}

fn encode_position(position: &SessionPosition, to: &mut impl Sink) {
    to.name(&position.session);
    to.u64(position.stream.0);
    to.u64(position.seq);
}

fn decode_position(from: &mut Reader<'_>) -> Result<SessionPosition, Malformed> {
    let session = from.name()?.into();
    Ok(SessionPosition { session, stream: StreamId(from.u64()?), seq: from.u64()? })
}

fn encode_footer(footer: &Footer, to: &mut impl Sink) {
    to.u64(footer.sequences.0);
    to.u64(footer.sequences.1);
    let (earliest, latest) = footer.walls.unwrap_or_default();
    to.u64(earliest);
    to.u64(latest);
    to.u64(footer.records);
    to.count(footer.streams.len());
    for StreamPart { stream, seqs, records } in &footer.streams {
        to.u64(stream.0);
        to.u64(seqs.0);
        to.u64(seqs.1);
        to.u64(*records);
    }
    to.count(footer.points.len());
    for IndexPoint { sequence, unix_ns, offset } in &footer.points {
        to.u64(*sequence);
        to.u64(*unix_ns);
        to.u32(*offset);
    }
}

fn decode_footer(from: &mut Reader<'_>) -> Result<Footer, Malformed> {
    let sequences = (from.u64()?, from.u64()?);
    let walls = Some((from.u64()?, from.u64()?)).filter(|&walls| walls != (0, 0));
    let records = from.u64()?;
    let stream = |from: &mut Reader<'_>| {
        let (stream, seqs) = (StreamId(from.u64()?), (from.u64()?, from.u64()?));
        Ok(StreamPart { stream, seqs, records: from.u64()? })
    };
    let streams = from.many(32, stream)?;
    let point = |from: &mut Reader<'_>| {
        let (sequence, unix_ns) = (from.u64()?, from.u64()?);
        Ok(IndexPoint { sequence, unix_ns, offset: from.u32()? })
    };
    Ok(Footer { sequences, walls, records, streams, points: from.many(20, point)? })
}
