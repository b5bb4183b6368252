use super::super::wire::{EndedMessage, PolicyMessage};
use super::*;

fn camera(name: &str, subscribers: &[&str]) -> CameraInfo {
    let subscribers = subscribers.iter().map(|name| (*name).to_owned()).collect();
    CameraInfo { name: name.into(), subscribers, ..CameraInfo::default() }
}

fn request(camera: &str, latency_ms: u32, accuracy: f64) -> SubscribeRequest {
    let policy = PolicyMessage::Degrade.into();
    SubscribeRequest { camera: camera.into(), latency_ms, accuracy, policy, ..Default::default() }
}

/// A shelf with node n, which has camera c; and what is wanted of it.
fn shelf() -> (Shelf, u64, watch::Receiver<Vec<FlowMessage>>) {
    let shelf = Shelf::new(0);
    let (registration, wanted) = shelf.register("n");
    shelf.update("n", vec![camera("c", &[])]).unwrap();
    (shelf, registration, wanted)
}

fn piece_of(flow: u64, camera: &str) -> Bytes {
    let frame = FrameMessage { camera: camera.into(), frame: 9, ..FrameMessage::default() };
    FramePiece::cut(flow, 9, &frame.encode_to_vec().into(), 1000)[0].encode()
}

#[test]
fn subscribers_that_ask_for_the_same_share_a_flow_and_others_have_their_own() {
    let (shelf, _, wanted) = shelf();
    assert!(wanted.borrow().is_empty(), "on demand only");
    let (first, _) = shelf.subscribe("a", &request("c", 100, 0.9)).unwrap();
    let (second, _) = shelf.subscribe("b", &request("c", 100, 0.9)).unwrap();
    let (third, _) = shelf.subscribe("b", &request("c", 300, 0.95)).unwrap();
    let mut bounds: Vec<u32> = wanted.borrow().iter().map(|flow| flow.latency_ms).collect();
    bounds.sort_unstable();
    assert_eq!(bounds, [100, 300]);
    assert!(!shelf.unsubscribe("b", first), "not theirs");
    assert!(shelf.unsubscribe("a", first));
    assert_eq!(wanted.borrow().len(), 2, "the second one is still there");
    assert!(shelf.unsubscribe("b", second) && shelf.unsubscribe("b", third));
    assert!(wanted.borrow().is_empty());
}

#[test]
fn who_may_not_see_a_camera_hears_so() {
    let shelf = Shelf::new(0);
    shelf.register("n");
    shelf.update("n", vec![camera("secret", &["app"]), camera("open", &[])]).unwrap();
    let names = |who: &str| {
        let cameras = shelf.cameras(who, "");
        cameras.into_iter().map(|camera| camera.name).collect::<Vec<_>>()
    };
    assert_eq!(
        (names("app"), names("other")),
        (vec!["open".into(), "secret".into()], vec!["open".into()])
    );
    let denied = shelf.subscribe("other", &request("secret", 100, 0.9)).unwrap_err();
    assert_eq!(denied.message(), "\"other\" may not subscribe to camera \"secret\"");
    let missing = shelf.subscribe("app", &request("no", 100, 0.9)).unwrap_err();
    assert_eq!(missing.message(), "no camera \"no\" is registered here");
    for (latency, accuracy) in [(0, 0.9), (90_000, 0.9), (100, 1.1), (100, f64::NAN)] {
        let wrong = shelf.subscribe("app", &request("open", latency, accuracy)).unwrap_err();
        assert_eq!(wrong.code(), tonic::Code::InvalidArgument);
    }
}

#[test]
fn a_node_that_comes_back_hears_what_is_wanted() {
    let (shelf, registration, wanted) = shelf();
    shelf.subscribe("a", &request("c", 100, 0.9)).unwrap();
    let before = wanted.borrow().clone();
    assert!(shelf.gone("n", registration));
    assert!(!shelf.cameras("a", "c")[0].is_online);
    let (again, wanted) = shelf.register("n");
    assert_eq!(*wanted.borrow(), before);
    assert!(!shelf.gone("n", registration), "an old stream ends after the new one began");
    shelf.update("n", vec![camera("c", &[])]).unwrap();
    assert!(shelf.cameras("a", "c")[0].is_online);
    assert!(shelf.gone("n", again));
}

#[tokio::test]
async fn who_watches_a_camera_whose_node_stays_away_is_told_to_come_again() {
    let (shelf, registration, _) = shelf();
    let (_, live) = shelf.subscribe("a", &request("c", 100, 0.9)).unwrap();
    let replay = SubscribeRequest { start_unix_ns: Some(1), ..request("c", 0, 0.9) };
    let (_, waits) = shelf.subscribe("a", &replay).unwrap();
    assert!(shelf.gone("n", registration));
    let refused = shelf.subscribe("b", &request("c", 100, 0.9)).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    // It is back, and the end of its first registration is of no matter.
    let (again, _) = shelf.register("n");
    shelf.update("n", vec![camera("c", &[])]).unwrap();
    shelf.stays_away("n", registration);
    assert_eq!(shelf.counts().subscriptions, 2);
    assert!(shelf.gone("n", again));
    shelf.stays_away("n", again);
    assert_eq!(live.next().await, None);
    assert!(live.is_away() && !waits.is_away());
    assert_eq!(shelf.counts().subscriptions, 1, "the replay waits for its camera");
}

#[test]
fn a_frame_that_is_not_the_one_of_its_pieces_is_refused() {
    let (shelf, _, wanted) = shelf();
    shelf.subscribe("a", &request("c", 100, 0.9)).unwrap();
    let flow = wanted.borrow()[0].flow;
    let frame = FrameMessage { camera: "c".into(), frame: u64::MAX, ..FrameMessage::default() };
    let piece = FramePiece::cut(flow, 9, &frame.encode_to_vec().into(), 1000)[0].encode();
    let refused = shelf.piece(Time::ZERO, "n", piece).unwrap_err();
    assert_eq!(refused, format!("frame {} in pieces of frame 9", u64::MAX));
}

#[tokio::test]
async fn a_replay_from_the_replica_ends_at_the_last_number_there_is() {
    let (shelf, registration, _) = shelf();
    shelf.replicate(1 << 20, Account::new(1 << 20), &"edge".into());
    let frame = FrameMessage { camera: "c".into(), frame: u64::MAX, ..FrameMessage::default() };
    shelf.lock().replica.keep("n", &frame, (&camera("c", &[]), false));
    shelf.gone("n", registration);
    let replay = SubscribeRequest { start_unix_ns: Some(1), ..request("c", 0, 0.9) };
    let (_, slot) = shelf.subscribe("a", &replay).unwrap();
    assert!(matches!(slot.next().await, Some(ReplyKind::Frame(_))));
    assert_eq!(slot.next().await, None);
}

#[test]
fn a_camera_is_of_one_node_while_that_is_there() {
    let (shelf, registration, _) = shelf();
    shelf.register("m");
    let taken = shelf.update("m", vec![camera("c", &[])]).unwrap_err();
    assert_eq!(taken.message(), "camera \"c\" is one of node \"n\"");
    shelf.gone("n", registration);
    shelf.update("m", vec![camera("c", &[])]).unwrap();
    assert_eq!(shelf.cameras("a", "c")[0].node, "m");
}

#[tokio::test]
async fn frames_go_to_those_of_their_flow_and_only_from_their_node() {
    let (shelf, _, wanted) = shelf();
    let (_, slot) = shelf.subscribe("a", &request("c", 100, 0.9)).unwrap();
    let (_, other) = shelf.subscribe("a", &request("c", 200, 0.9)).unwrap();
    let flow = wanted.borrow().iter().find(|flow| flow.latency_ms == 100).unwrap().flow;
    shelf
        .piece(Time::ZERO, "n", piece_of(flow, "c"))
        .unwrap()
        .expect("it is whole")
        .hand_over()
        .await;
    let Some(ReplyKind::Frame(frame)) = slot.next().await else { panic!("a frame") };
    assert_eq!(frame.frame, 9);
    other.close();
    assert_eq!(other.next().await, None, "nothing of another flow");
    let foreign = shelf.piece(Time::ZERO, "m", piece_of(flow, "c")).unwrap_err();
    assert_eq!(foreign, "node \"m\" sends frames of a camera that is not its own");
    let wrong = FramePiece { flow, frame: 10, index: 0, count: 1, bytes: Bytes::from("\u{1}junk") };
    assert!(shelf.piece(Time::ZERO, "n", wrong.encode()).unwrap_err().starts_with("a frame: "));
    assert!(
        shelf.piece(Time::ZERO, "n", piece_of(77, "c")).unwrap().is_none(),
        "nobody wants it any more"
    );
}

#[tokio::test]
async fn a_replay_ends_for_its_subscriber_alone() {
    let (shelf, _, wanted) = shelf();
    let replay = SubscribeRequest { start_unix_ns: Some(1), ..request("c", 0, 0.9) };
    let (_, slot) = shelf.subscribe("a", &replay).unwrap();
    let (_, second) = shelf.subscribe("a", &replay).unwrap();
    assert_eq!(wanted.borrow().len(), 2, "each replay has a beginning of its own");
    let flow = shelf.lock().subscriptions.values().next().unwrap().flow;
    shelf.news("m", NewsMessage { flow, news: Some(NewsKind::Ended(EndedMessage {})) });
    assert_eq!(shelf.counts().subscriptions, 2, "not from another node");
    shelf.news("n", NewsMessage { flow, news: Some(NewsKind::Ended(EndedMessage {})) });
    assert_eq!(slot.next().await, None);
    assert_eq!(shelf.counts().subscriptions, 1);
    assert!(shelf.unregister("n"));
    assert_eq!(second.next().await, None);
}

#[tokio::test]
async fn a_frame_that_came_too_late_goes_only_to_who_asked_for_it_so() {
    let (shelf, _, wanted) = shelf();
    let (_, slot) = shelf.subscribe("a", &request("c", 100, 0.9)).unwrap();
    let floor = SubscribeRequest { policy: PolicyMessage::Floor.into(), ..request("c", 100, 0.8) };
    let (_, patient) = shelf.subscribe("a", &floor).unwrap();
    let flow = |accuracy: f64| {
        let wanted = wanted.borrow();
        wanted.iter().find(|flow| flow.accuracy.total_cmp(&accuracy).is_eq()).unwrap().flow
    };
    // Each leaves 20 ms after capture, by a clock that is 7 s ahead, and is on its way for so long.
    let come = |flow: u64, number: u64, took: u64| {
        let frame = FrameMessage {
            camera: "c".into(),
            frame: number,
            age_us: 20_000,
            left_us: 7_000_000 + number * 1_000_000,
            way_us: 5_000,
            ..FrameMessage::default()
        };
        let piece = FramePiece::cut(flow, number, &frame.encode_to_vec().into(), 1000)[0].encode();
        shelf.piece(Time::from_millis(number * 1000 + took), "n", piece).unwrap()
    };
    let strict = flow(0.9);
    come(strict, 1, 5).expect("it is in time").hand_over().await;
    assert!(matches!(slot.next().await, Some(ReplyKind::Frame(frame)) if !frame.is_late));
    come(strict, 2, 80).expect("just in time");
    assert!(come(strict, 3, 81).is_none(), "a millisecond too late");
    come(flow(0.8), 3, 81).expect("late, as it was asked for").hand_over().await;
    assert!(matches!(patient.next().await, Some(ReplyKind::Frame(frame)) if frame.is_late));
    assert_eq!((shelf.counts().late, shelf.counts().frames), (2, 4));
    // In two pieces, the first of which does not wait: all that lies between them counts.
    for (number, apart) in [(4, 75), (5, 76)] {
        let left_us = 7_000_000 + number * 1_000_000;
        let (camera, age_us, way_us) = ("c".into(), 20_000, 5_000);
        let jpeg = Bytes::from_static(&[1; 100]);
        let frame = FrameMessage {
            camera,
            frame: number,
            age_us,
            left_us,
            way_us,
            jpeg,
            ..Default::default()
        };
        let pieces = FramePiece::cut(strict, number, &frame.encode_to_vec().into(), 100);
        let at = |millis| Time::from_millis(number * 1000 + millis);
        assert!(shelf.piece(at(5), "n", pieces[0].encode()).unwrap().is_none());
        let whole = shelf.piece(at(5 + apart), "n", pieces[1].encode()).unwrap();
        assert_eq!((pieces.len(), whole.is_some()), (2, apart == 75));
    }
}
