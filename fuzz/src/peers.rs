//! Targets: what other nodes, orchestrators, cameras, proxies and etcd say, and files that describe who they are.

use bytes::BytesMut;
use tidegate_cluster::handover::wire;
use tidegate_log::mirror;

/// What the other members of a group say; what is taken says the same again.
pub fn group_frames(data: &[u8]) {
    let mut input = BytesMut::from(data);
    while let Ok(Some(frame)) = wire::MemberFrame::take(&mut input) {
        let mut again = BytesMut::new();
        frame.put(&mut again);
        let same = wire::MemberFrame::take(&mut again);
        // Numbers that are none are not the same as themselves: those of a load.
        if format!("{frame:?}").contains("NaN") {
            continue;
        }
        assert_eq!(same, Ok(Some(frame)));
        assert!(again.is_empty());
    }
}

/// What owner and keeper of a log say; what is taken says the same again.
pub fn mirror_messages(data: &[u8]) {
    let mut input = BytesMut::from(data);
    while let Ok(Some(message)) = mirror::take(&mut input) {
        let mut again = BytesMut::new();
        message.put(&mut again);
        assert_eq!(mirror::take(&mut again), Ok(Some(message)));
        assert!(again.is_empty());
    }
}

/// What nodes and orchestrators say.
pub fn fleet_messages(data: &[u8]) {
    tidegate::services::fleet::fuzz::exercise(data, tidegate::cli::fleet::exercise);
}

/// What etcd answers.
pub fn etcd_replies(data: &[u8]) {
    tidegate::services::fleet::fuzz::exercise_etcd(data);
}

/// What cameras and their subscribers say; what is taken says the same again.
pub fn frames_messages(data: &[u8]) {
    use tidegate::services::cameras::wire::{
        CameraInfoReply, ConnectRequest, FrameMessage, PublishRequest, RegisterReply,
        RegisterRequest, SubscribeReply, SubscribeRequest,
    };
    fn again<M: prost::Message + Default>(data: &[u8]) {
        let Ok(message) = M::decode(data) else { return };
        let bytes = message.encode_to_vec();
        let same = M::decode(&*bytes).expect("what we wrote is read");
        assert_eq!(same.encode_to_vec(), bytes);
    }
    again::<CameraInfoReply>(data);
    again::<ConnectRequest>(data);
    again::<FrameMessage>(data);
    again::<PublishRequest>(data);
    again::<RegisterReply>(data);
    again::<RegisterRequest>(data);
    again::<SubscribeReply>(data);
    again::<SubscribeRequest>(data);
}

/// What Envoy says of heads.
pub fn ext_proc(data: &[u8]) {
    tidegate::services::proxy::envoy::exercise(data);
}

/// A certificate.
pub fn certificates(data: &[u8]) {
    let Ok(read) = tidegate::support::tls::Certificate::read(data) else { return };
    // A name and two times are in it.
    assert!(read.common_name.is_none_or(|name| name.len() < data.len()));
}

/// A file of users: every line that is taken is a name, and a mistake has a place.
pub fn users_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match tidegate::support::access::users::Users::parse(text) {
        Ok(users) => assert!(users.names().all(|name| text.contains(name))),
        Err((line, _)) => assert!((1..=text.lines().count()).contains(&line)),
    }
}

/// A token, the keys that it is checked by, and what a server answers about a login: see there.
pub fn logins(data: &[u8]) {
    tidegate::support::access::exercise(data);
}

/// A file of who owns which topics.
pub fn group_state(data: &[u8]) {
    tidegate::services::cluster::exercise_state(data);
}

/// Configurations, with a line `---` between them: a node is made by the first and gets the streams of the others while
/// it works. Every record has its place all the time.
pub fn reload(data: &[u8]) {
    use tidegate::assembly::node_options;
    use tidegate::config::{Config, read};
    use tidegate_node::io::{Control, Input};
    use tidegate_testing::{Wire, offer};
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut texts = text.split("\n---\n").map(read).filter(|reading| reading.counts().0 == 0);
    let Some(first) = texts.next() else { return };
    let config = first.config.completed();
    let Ok(options) = node_options(&config, 1, 1) else { return };
    let Ok(node) = tidegate_node::node::Node::new(options) else { return };
    let mut wire = Wire::new(node);
    wire.poll();
    wire.sync();
    wire.open(1, "client");
    wire.up();
    let publish = |wire: &mut Wire| {
        for (topic, size) in [("plant/7/alarm", 20), ("plant/7/bulk", 2000), ("other", 1)] {
            let offered = offer(wire.now, 1, topic, size);
            wire.handle(Input::Arrived(vec![offered]));
        }
    };
    publish(&mut wire);
    for next in texts.take(8) {
        let stream = next.config.stream;
        let Ok(options) = node_options(&Config { stream, ..config.clone() }, 1, 1) else {
            continue;
        };
        wire.control(Control::Rules(options.rules.into()));
        publish(&mut wire);
        wire.sync();
        wire.advance(std::time::Duration::from_millis(100));
    }
    wire.control(Control::Stop);
}
