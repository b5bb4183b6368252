//! The tables on terminals of several widths.

use super::*;
use crate::observe::status::fleet::{FleetView, GrantView};
use crate::observe::status::links::{LinkView, PathView};
use crate::observe::status::mirror::{CopyView, KeptView, MirrorView};
use crate::observe::status::operators::TopicView;
use crate::observe::status::outputs::OutputView;
use crate::observe::status::recent::RecentView;

fn class(name: &str, backlog_records: u64, p99_seconds: f64) -> ClassView {
    ClassView {
        name: name.into(),
        bound_seconds: 0.05,
        backlog_records,
        backlog_bytes: backlog_records * 20_000,
        late_records: backlog_records / 2,
        input_bytes_per_second: 400_000.0,
        output_bytes_per_second: 230_000.0,
        counts: CountsView { dropped: [("full".into(), 12)].into(), ..Default::default() },
        recent: RecentView { count: 9, p50_seconds: 0.0042, p99_seconds, ..Default::default() },
        ..Default::default()
    }
}

fn node() -> NodeView {
    let uplink = UplinkView {
        name: "uplink".into(),
        capacity_bytes_per_second: 230_000.0,
        rtt_seconds: Some(0.1034),
        ..Default::default()
    };
    let away = OutputView {
        name: "cloud".into(),
        lanes: 3,
        trouble: "10.0.0.1:5672: connection refused (os error 111)".into(),
        ..Default::default()
    };
    NodeView {
        node: "gate".into(),
        uptime_seconds: 3725.0,
        memory_bytes: 64 << 20,
        classes: vec![class("ls", 0, 0.031), class("lt", 312, 12.31)],
        uplinks: vec![uplink],
        outputs: vec![away],
        ..Default::default()
    }
}

#[test]
fn a_node_fits_80_columns_and_wide_terminals_show_more() {
    let view = node();
    let all = |width| {
        summary(&view, width, Paint::Plain)
            + &classes(&view, None, Sort::Given).render(width, Paint::Plain)
    };
    assert!(all(80).lines().all(|line| line.chars().count() <= 80), "{}", all(80));
    insta::assert_snapshot!(all(80));
    insta::assert_snapshot!(all(200));
}

#[test]
fn rows_are_sorted_by_what_is_asked_for() {
    let view = node();
    let first = |sort| classes(&view, None, sort).rows[0][0].text.clone();
    assert_eq!(
        [Sort::Given, Sort::Name, Sort::Queue, Sort::P99].map(first),
        ["ls", "ls", "lt", "lt"]
    );
}

#[test]
fn what_an_operator_cannot_use_is_not_called_lost_and_not_dropped() {
    let topic = TopicView {
        failed: [("parse".to_owned(), 2)].into(),
        dropped: [("full".to_owned(), 3)].into(),
        ..Default::default()
    };
    let view = NodeView { operators: vec![topic], ..Default::default() };
    let table = others::operators(&view, Sort::Given).unwrap().render(200, Paint::Plain);
    assert!(table.contains("dropped  failed") && !table.contains("lost"), "{table}");
    assert!(table.trim_end().ends_with("3       2"), "{table}");
}

#[test]
fn paths_stand_below_each_other_with_their_shares() {
    let path = |name: &str, state: &str, share| PathView {
        name: name.into(),
        state: state.into(),
        transport: Some("quic".into()),
        rate_bytes_per_second: 4.5e6,
        rtt_seconds: Some(0.141),
        queue_delay_seconds: 0.003,
        loss: 0.098,
        share,
        marked_packets: 12,
        ..Default::default()
    };
    let absent = PathView { name: "eth0".into(), state: "absent".into(), ..Default::default() };
    let paths = vec![path("wlan0", "up", 0.75), path("wwan0", "dead", 0.25), absent];
    let link = LinkView { name: "hq".into(), direction: "out".into(), paths, ..Default::default() };
    let table = links(&NodeView { links: vec![link], ..Default::default() }).unwrap();
    assert_eq!(
        table.render(80, Paint::Plain),
        "link  path   state   by            rate     rtt   queue   loss  marked  share\n\
         hq    wlan0  up      quic  36.00 Mbit/s  141 ms  3.0 ms  9.8 %      12   75 %\n\
         hq    wwan0  dead    quic  36.00 Mbit/s  141 ms  3.0 ms  9.8 %      12   25 %\n\
         hq    eth0   absent  -                -       -       -  0.0 %       -    0 %\n"
    );
    assert!(links(&NodeView::default()).is_none());
}

#[test]
fn an_output_that_is_down_says_why() {
    let table = outputs(&node()).render(80, Paint::Plain);
    assert!(table.contains("down") && table.contains("connection refused"), "{table}");
    let painted = outputs(&node()).render(80, Paint::Colours);
    assert!(painted.contains("\x1b[31mdown\x1b[0m"), "{painted:?}");
}

#[test]
fn what_neighbours_carry_and_keep_stands_below_the_outputs() {
    let grant = GrantView {
        peer: "gate-8".into(),
        direction: "borrowed".into(),
        class: "ls".into(),
        bytes_per_second: 250_000,
    };
    let fleet = FleetView { peers: 2, peers_up: 1, grants: vec![grant], ..Default::default() };
    let own = Some(CopyView { is_up: false, behind_bytes: None });
    let kept =
        KeptView { node: "gate-8".into(), bytes: 2048, is_connected: true, ..Default::default() };
    let mirror = Some(MirrorView { own, kept: vec![kept] });
    let view = NodeView { fleet: Some(fleet), mirror, ..node() };
    let told = summary(&view, 80, Paint::Plain);
    for words in ["no orchestrator leads", "mirror: away"] {
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(
        others::fleet(&view, 80, Paint::Plain),
        "fleet  no orchestrator leads  neighbours up 1 of 2  lent 0 bit/s\n\
         borrowed 0 bit/s  sent by neighbours 0 B  carried for them 0 B\n\
         neighbour  grant     class         rate\n\
         gate-8     borrowed  ls     2.00 Mbit/s\n"
    );
    let mirrors = others::mirrors(&view).unwrap().render(80, Paint::Plain);
    assert!(
        mirrors.contains("own           mirror away") && mirrors.contains("2 KiB"),
        "{mirrors}"
    );
    assert!(
        others::fleet(&node(), 80, Paint::Plain).is_empty() && others::mirrors(&node()).is_none()
    );
}
