//! What peers say to each other, by the product's own encoders; etcd's answers and users by hand.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use tidegate::services::cameras::wire::{
    CameraInfo, CameraInfoReply, EndedMessage, FlowMessage, FrameMessage, InfeasibleMessage,
    NewsKind, NewsMessage, PolicyMessage, PublishRequest, RegisterReply, RegisterRequest,
    ReplyKind, RungMessage, SubscribeReply, SubscribeRequest,
};
use tidegate::services::fleet::node_id;
use tidegate::services::fleet::wire::{
    ApartMessage, BeatMessage, Description, DigestMessage, DirectiveMessage, DrainRequest,
    FenceMessage, GivenMessage, GrantMessage, LenderMessage, LendersReply, MemberMessage,
    PeersMessage, ReachMessage, StandingMessage,
};
use tidegate_cluster::handover::loads::{MemberLoads, UnitCounts, UnitLoad};
use tidegate_cluster::handover::wire::MemberFrame;
use tidegate_cluster::handover::{GroupMessage, Member, UnitId, UnitOwner};
use tidegate_log::SegmentId;
use tidegate_log::mirror::MirrorMessage as Mirrored;
use tidegate_types::record::RefuseReason;
use tidegate_types::units::Size;

use super::Seed;

pub(super) fn seeds() -> impl Iterator<Item = Seed> {
    let frame = frame();
    [
        ("group_frames", "handshake", group(&handshake())),
        ("group_frames", "moving", group(&moving())),
        ("group_frames", "commands", group(&commands())),
        ("mirror_messages", "copying", mirror()),
        ("fleet_messages", "leading", fleet(0)),
        ("fleet_messages", "boasting", fleet(1 << 62)),
        ("etcd_replies", "range", etcd_range()),
        ("etcd_replies", "transaction", etcd_transaction()),
        ("etcd_replies", "lease", vec![0x10, 0xe7, 0x07, 0x18, 0x05]),
        (
            "etcd_replies",
            "negative",
            [&[0x10][..], &[0xff; 9], &[1, 0x18], &[0xff; 9], &[1]].concat(),
        ),
        ("frames_messages", "frame", frame.encode_to_vec()),
        ("frames_messages", "reply", SubscribeReply::from(ReplyKind::Frame(frame)).encode_to_vec()),
        ("frames_messages", "subscribe", subscribe().encode_to_vec()),
        ("frames_messages", "publish", publish().encode_to_vec()),
        ("ext_proc", "exchange", ext_proc()),
        ("frames_messages", "cameras", cameras().encode_to_vec()),
        ("frames_messages", "register", register().encode_to_vec()),
        ("frames_messages", "flows", flows().encode_to_vec()),
        ("users_file", "two", USERS.as_bytes().to_vec()),
        ("users_file", "twice", [USERS, USERS].concat().into_bytes()),
        ("users_file", "lanes", USERS.replace("p=1", "p=555555551").into_bytes()),
        ("users_file", "costly", USERS.replace("m=19456", "m=4294967295").into_bytes()),
        ("group_state", "owners", b"taxi-7\t3\tgate-8\ntaxi-8\t0\tgate-7\ndrains\n".to_vec()),
        ("group_state", "odd", b"taxi-7\t-1\tgate-8\ntaxi-8\t\nnobody\t1\tgate-9\n\xff".to_vec()),
        ("reload", "another-class", reloads(&["class = \"lt\"", "class = \"ls\"", "ttl = \"1s\""])),
        (
            "reload",
            "policies",
            reloads(&["full = \"reject\"", "full = \"drop-oldest\"", "to = []"]),
        ),
        (
            "reload",
            "orders",
            reloads(&["order = \"lifo\"", "order = \"newest-only\"", "strict_order = true"]),
        ),
    ]
    .into_iter()
}

fn group(frames: &[MemberFrame]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    frames.iter().for_each(|frame| frame.put(&mut bytes));
    bytes.to_vec()
}

fn handshake() -> Vec<MemberFrame> {
    vec![
        MemberFrame::Hello { node: "gate-8".into(), incarnation: 7, digest: 9 },
        MemberFrame::Welcome { incarnation: 8, received: 0 },
        MemberFrame::Greeted,
        MemberFrame::Received(1),
        MemberFrame::Alive,
        MemberFrame::Refused("it is no member of this group".into()),
    ]
}

fn moving() -> Vec<MemberFrame> {
    let owner = UnitOwner { epoch: 3, member: Member(1) };
    let content = Bytes::from_static(b"plant/7/alarm");
    let messages = [
        GroupMessage::Forward { round: 1, seq: 2, content: content.clone() },
        GroupMessage::Answered(2, Ok(())),
        GroupMessage::Answered(3, Err(RefuseReason::Full)),
        GroupMessage::Refused { seq: 4, owner, is_open: true },
        GroupMessage::Result(3, content.clone()),
        GroupMessage::Ended(3),
        GroupMessage::Take(4, None),
        GroupMessage::Take(4, Some(content)),
        GroupMessage::Table { owner, is_open: false },
    ];
    messages.into_iter().map(|message| MemberFrame::Said(UnitId(0), message)).collect()
}

fn commands() -> Vec<MemberFrame> {
    let unit = |counts| UnitLoad {
        name: "taxi-7".into(),
        owner: UnitOwner { epoch: 3, member: Member(0) },
        is_open: true,
        counts,
    };
    let loads = MemberLoads {
        node: "gate-7".into(),
        life: 7,
        threads: 2,
        processors: 2,
        members: vec!["gate-7".into(), "gate-8".into()],
        units: vec![unit(None), unit(Some(UnitCounts { records: 9, ..UnitCounts::default() }))],
        ..MemberLoads::default()
    };
    vec![
        MemberFrame::Order {
            unit: "taxi-7".into(),
            to: "gate-8".into(),
            seize: true,
            patient: false,
        },
        MemberFrame::Done(Ok(true)),
        MemberFrame::Done(Err("nobody is called so".into())),
        MemberFrame::Ask("gate-8".into()),
        MemberFrame::Tell,
        MemberFrame::Loads(Box::new(loads)),
        MemberFrame::Drain { is_over: true },
    ]
}

fn mirror() -> Vec<u8> {
    let segment = SegmentId(7);
    let messages = [
        Mirrored::Hello { node: "gate-7".into(), incarnation: 9 },
        Mirrored::Kept(BTreeMap::from([(segment, Size(64)), (SegmentId(8), Size(1 << 20))])),
        Mirrored::Piece { segment, from: Size(64), bytes: Bytes::from_static(b"entry") },
        Mirrored::Safe { segment, upto: Size(69) },
        Mirrored::Released(vec![segment]),
        Mirrored::Alive,
        Mirrored::Refused("no room".into()),
    ];
    let mut bytes = BytesMut::new();
    messages.iter().for_each(|message| message.put(&mut bytes));
    bytes.to_vec()
}

/// Beats of three nodes, one of which claims `more`; time between them, and what a leader answers.
fn fleet(more: u64) -> Vec<u8> {
    let beat = |name: &str, number, capacity: u64, wanted: u64| BeatMessage {
        node: node_id(name).0,
        incarnation: 1,
        number,
        heard: Some(FenceMessage { revision: 1, round: 1 }),
        capacity: capacity.saturating_add(more),
        demand: vec![0, 0, wanted.saturating_add(more)],
        output: 100,
        peers: Some(PeersMessage {
            peers: ["gate-7", "gate-8", "gate-9"]
                .map(|peer| ReachMessage { node: node_id(peer).0, distance: 1 })
                .to_vec(),
        }),
        held: Vec::new(),
    };
    let borrower = beat("gate-7", 3, 100_000, 300_000);
    let grant = GrantMessage {
        revision: 1,
        id: 1,
        provider: node_id("gate-8").0,
        receiver: node_id("gate-7").0,
        class: 2,
        amount: 50_000 + more,
        carried: 40_000,
    };
    let directive = DirectiveMessage {
        node: node_id("gate-7").0,
        incarnation: 1,
        fence: Some(FenceMessage { revision: 1, round: 3 }),
        beat: 1,
        lease_ms: 5000,
        grants: vec![grant, GrantMessage { id: 2, ..grant }],
        standing: Some(StandingMessage { lease_ms: 600_000, permits: vec![grant] }),
    };
    let lender = LenderMessage { name: "gate-8".into(), address: "[::1]:7443".into() };
    let lenders = LendersReply { lenders: vec![lender] };
    let pair = (node_id("gate-7").0, node_id("gate-9").0);
    let digest = DigestMessage {
        revision: 1,
        drained: vec![pair.1],
        apart: vec![ApartMessage { receiver: pair.0, provider: pair.1, left_ms: 100 + more }],
    };
    let said = |kind: u8, bytes: Vec<u8>| {
        [&[kind][..], &(bytes.len() as u16).to_le_bytes(), &bytes].concat()
    };
    [
        said(0, beat("gate-7", 1, 100_000, 300_000).encode_to_vec()),
        said(0, beat("gate-8", 1, 100_000, 0).encode_to_vec()),
        said(5, vec![250]),
        said(0, beat("gate-9", 1, 50_000, 1).encode_to_vec()),
        said(5, vec![250; 4]),
        said(1, directive.encode_to_vec()),
        said(3, description(grant, more).encode_to_vec()),
        said(4, DrainRequest { name: "gate-8".into(), is_drained: true }.encode_to_vec()),
        said(5, vec![250; 40]),
        said(2, digest.encode_to_vec()),
        said(0, beat("gate-7", 2, 100_000, 300_000).encode_to_vec()),
        said(4, lenders.encode_to_vec()),
        said(0, BeatMessage { held: vec![grant, grant], ..borrower }.encode_to_vec()),
        said(5, vec![250; 8]),
    ]
    .concat()
}

fn description(grant: GrantMessage, more: u64) -> Description {
    let member = |name: &str| MemberMessage {
        node: node_id(name).0,
        name: name.into(),
        capacity: 100_000,
        demand: vec![10_000 + more, 30_000 + more, 120_000 + more],
        silent_ms: 250,
        is_drained: false,
        classes: vec!["ls".into()],
    };
    let given = GivenMessage {
        grant: Some(grant),
        capacity: 1,
        demand: vec![more, more, more],
        spare: more,
        since_ms: more,
        until_ms: Some(1),
    };
    Description {
        revision: 5,
        decisions: 9,
        wanted: 60_000,
        granted: 50_000,
        members: vec![member("gate-7"), member("gate-8")],
        grants: vec![grant, grant],
        apart: vec![node_id("gate-7").0, 3],
        given: vec![given],
        classes: vec!["ls".into()],
    }
}

/// One key value, with fields that are not read.
fn etcd_kv() -> Vec<u8> {
    vec![0x0a, 1, b'k', 0x10, 9, 0x18, 9, 0x20, 1, 0x2a, 1, b'v', 0x30, 5]
}

fn etcd_range() -> Vec<u8> {
    let kv = etcd_kv();
    [&[0x0a, 2, 0x18, 9, 0x12, kv.len() as u8][..], &kv].concat()
}

fn etcd_transaction() -> Vec<u8> {
    let range = etcd_range();
    let op = [&[0x0a, range.len() as u8][..], &range].concat();
    [&[0x10, 1, 0x1a, op.len() as u8][..], &op].concat()
}

fn frame() -> FrameMessage {
    FrameMessage {
        camera: "gate".into(),
        frame: 3,
        captured_unix_ns: 300,
        width: 640,
        height: 480,
        eighths: 4,
        quality: 50,
        accuracy: 0.5,
        jpeg: Bytes::from_static(&[0xff, 0xd8, 0xff, 0xd9]),
        ..FrameMessage::default()
    }
}

fn subscribe() -> SubscribeRequest {
    SubscribeRequest {
        camera: "gate".into(),
        start_unix_ns: Some(0),
        stop_unix_ns: Some(u64::MAX),
        latency_ms: 100,
        accuracy: f64::NAN,
        policy: PolicyMessage::Skip.into(),
    }
}

fn cameras() -> CameraInfoReply {
    let rung = RungMessage { eighths: 4, quality: 50, bytes: 9e3, ..RungMessage::default() };
    let camera = CameraInfo {
        name: "gate".into(),
        node: "gate-7".into(),
        is_online: true,
        frames_per_second: f64::INFINITY,
        ladder: vec![rung, RungMessage { accuracy: f64::NAN, ..rung }],
        subscribers: vec!["guard".into()],
        ..CameraInfo::default()
    };
    CameraInfoReply { cameras: vec![camera] }
}

fn register() -> RegisterRequest {
    let news = |news| NewsMessage { flow: 3, news: Some(news) };
    RegisterRequest {
        node: "gate-7".into(),
        cameras: cameras().cameras,
        news: vec![
            news(NewsKind::Infeasible(InfeasibleMessage { accuracy: 0.9, latency_ms: 1 })),
            news(NewsKind::Ended(EndedMessage {})),
        ],
    }
}

fn flows() -> RegisterReply {
    let flow = FlowMessage { flow: 3, camera: "gate".into(), ..FlowMessage::default() };
    RegisterReply { flows: vec![FlowMessage { stop_unix_ns: Some(1), ..flow.clone() }, flow] }
}

fn publish() -> PublishRequest {
    PublishRequest {
        camera: "gate".into(),
        jpeg: Bytes::from_static(&[0xff, 0xd8]),
        captured_unix_ns: u64::MAX,
        age_us: u64::MAX,
    }
}

/// Envoy's messages by hand: heads of a request and of its response, and a changed request.
fn ext_proc() -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8][..], bytes].concat();
    let header = |key: &str, value: &str| {
        field(0x0a, &[field(0x0a, key.as_bytes()), field(0x1a, value.as_bytes())].concat())
    };
    let head = |tag: u8, pairs: &[(&str, &str)]| {
        let map: Vec<u8> = pairs.iter().flat_map(|(key, value)| header(key, value)).collect();
        let message = field(tag, &field(0x0a, &map));
        [&(message.len() as u16).to_le_bytes()[..], &message].concat()
    };
    let base = [(":method", "GET"), (":path", "/a?b"), (":authority", "h")];
    let more = [&base[..], &[("x-tidegate-upstream", "forged"), ("x", "1"), ("x", "2")]].concat();
    [
        head(0x12, &base),
        head(0x12, &more),
        head(0x1a, &[(":status", "503"), ("set-cookie", "a"), ("set-cookie", "b")]),
    ]
    .concat()
}

/// As `tidegate user add` writes them.
const USERS: &str = "plc-7:$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0IGhlcmU$8J0jqC6qkkSlYqkCUvcxdOZdiHZ1eUhNXAtnRwxcBJo\n\
    # a comment\n\nplc-8:$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0IGhlcmU$8J0jqC6qkkSlYqkCUvcxdOZdiHZ1eUhNXAtnRwxcBJo\n";

/// A node whose stream of alarms changes so, one key at a time.
fn reloads(keys: &[&str]) -> Vec<u8> {
    let first = "[node]\nname = \"gate-7\"\n[log]\ndirectory = \"log\"\n[[output]]\nname = \"far\"\nsink = {}\n";
    let stream = |key: &str| format!("[[stream]]\ntopics = [\"plant/+/alarm\"]\n{key}\n");
    let later = |key: &&str| format!("[[output]]\nname = \"far\"\nsink = {{}}\n{}", stream(key));
    let all: Vec<String> =
        [format!("{first}{}", stream(""))].into_iter().chain(keys.iter().map(later)).collect();
    all.join("\n---\n").into_bytes()
}
