//! Tables of what not every node has: clients, operators, cameras, a fleet, mirrors.

use super::{Sort, p99, wrapped};
use crate::observe::status::broker::ClientView;
use crate::observe::status::operators::TopicView;
use crate::observe::status::table::{Cell, Column, Mood, Paint, Table, rate, size, span};
use crate::observe::status::view::NodeView;

/// A line for each MQTT client; `None` where nobody ever came.
pub(in crate::cli) fn clients(view: &NodeView, sort: Sort) -> Option<Table> {
    let broker = view.broker.as_ref()?;
    let columns = vec![
        Column::text("client", 0),
        Column::text("user", 2),
        Column::text("state", 0),
        Column::number("subscriptions", 1),
        Column::number("waiting", 0),
        Column::number("unacknowledged", 3),
    ];
    let mut all: Vec<&ClientView> = broker.clients.iter().collect();
    let worth = |client: &ClientView, by| match by {
        Sort::Queue => client.waiting_messages as f64,
        _ => 0.0,
    };
    sort.sort(&mut all, |client| &client.client, worth);
    let rows = all.into_iter().map(|client| {
        vec![
            client.client.as_str().into(),
            client.user.as_str().into(),
            match client.is_connected {
                true => Cell::new("connected", Mood::Good),
                false => Cell::new("away", Mood::Soft),
            },
            client.subscriptions.to_string().into(),
            client.waiting_messages.to_string().into(),
            client.unacknowledged_messages.to_string().into(),
        ]
    });
    Some(Table { columns, rows: rows.collect() })
}

/// A line for each topic of an operator; `None` where there is none.
pub(in crate::cli) fn operators(view: &NodeView, sort: Sort) -> Option<Table> {
    if view.operators.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("operator", 0),
        Column::text("topic", 0),
        Column::number("bound", 4),
        Column::number("records/s", 1),
        Column::number("cpu", 3),
        Column::number("wait p90", 5),
        Column::number("delivery p90 / p99", 0),
        Column::number("violated", 2),
        Column::number("dropped", 0),
        // What came and was no use to a step: nothing of this node's promises.
        Column::number("failed", 0),
    ];
    let mut all: Vec<&TopicView> = view.operators.iter().collect();
    let worth = |topic: &TopicView, by| match by {
        Sort::In => topic.records_per_second,
        Sort::Queue => topic.waiting_records as f64,
        Sort::P99 => topic.delivery.p99_seconds,
        Sort::Violated => topic.violated as f64,
        Sort::Dropped => topic.dropped.values().sum::<u64>() as f64,
        Sort::Given | Sort::Name => 0.0,
    };
    sort.sort(&mut all, |topic| &topic.topic, worth);
    let rows = all.into_iter().map(|topic| {
        let delivery = &topic.delivery;
        let mood = p99(delivery.p99_seconds, delivery.count, topic.bound_seconds);
        let quantiles = match delivery.count {
            0 => "-".to_owned(),
            _ => format!("{} / {}", span(delivery.p90_seconds), span(delivery.p99_seconds)),
        };
        vec![
            topic.operator.as_str().into(),
            topic.topic.as_str().into(),
            span(topic.bound_seconds).into(),
            format!("{:.1}", topic.records_per_second).into(),
            span(topic.cpu_mean_seconds).into(),
            span(topic.wait.p90_seconds).into(),
            Cell::new(quantiles, mood),
            Cell::count(topic.violated, Mood::Warn),
            Cell::count(topic.dropped.values().sum(), Mood::Warn),
            Cell::count(topic.failed.values().sum(), Mood::Warn),
        ]
    });
    Some(Table { columns, rows: rows.collect() })
}

/// A line for each camera; `None` where there is none.
pub(in crate::cli) fn cameras(view: &NodeView, sort: Sort) -> Option<Table> {
    let cameras = &view.frames.as_ref().filter(|frames| !frames.cameras.is_empty())?.cameras;
    let columns = vec![
        Column::text("camera", 0),
        Column::number("frames/s", 0),
        Column::number("taken", 1),
        Column::number("refused", 2),
        Column::number("delivered", 0),
        Column::number("late", 0),
        Column::text("others", 3),
    ];
    let mut all: Vec<_> = cameras.iter().collect();
    let late = |camera: &crate::observe::status::cameras::CameraView| {
        camera.results.get("late").copied().unwrap_or_default()
    };
    sort.sort(
        &mut all,
        |camera| &camera.name,
        |camera, by| match by {
            Sort::In => camera.frames_per_second,
            Sort::Violated => late(camera) as f64,
            _ => 0.0,
        },
    );
    let rows = all.into_iter().map(|camera| {
        let others =
            camera.results.iter().filter(|(name, _)| *name != "delivered" && *name != "late");
        let others: Vec<String> = others.map(|(name, count)| format!("{name} {count}")).collect();
        vec![
            camera.name.as_str().into(),
            format!("{:.1}", camera.frames_per_second).into(),
            camera.taken_frames.to_string().into(),
            Cell::count(camera.refused_frames, Mood::Warn),
            camera.results.get("delivered").copied().unwrap_or_default().to_string().into(),
            Cell::count(late(camera), Mood::Warn),
            if others.is_empty() { "-".into() } else { others.join(", ").into() },
        ]
    });
    Some(Table { columns, rows: rows.collect() })
}

/// The node's part in its fleet, and a line for each grant; empty where it is part of none.
pub(in crate::cli) fn fleet(view: &NodeView, width: usize, paint: Paint) -> String {
    let Some(fleet) = &view.fleet else { return String::new() };
    let leader = match fleet.has_leader {
        true => "fleet  an orchestrator leads".to_owned(),
        false => paint.paint("fleet  no orchestrator leads", Mood::Bad),
    };
    let parts = [
        leader,
        format!("neighbours up {} of {}", fleet.peers_up, fleet.peers),
        format!("lent {}", rate(fleet.lent_bytes_per_second as f64)),
        format!("borrowed {}", rate(fleet.borrowed_bytes_per_second as f64)),
        format!("sent by neighbours {}", size(fleet.redirected_bytes)),
        format!("carried for them {}", size(fleet.relayed_bytes)),
    ];
    let columns = vec![
        Column::text("neighbour", 0),
        Column::text("grant", 0),
        Column::text("class", 0),
        Column::number("rate", 0),
    ];
    let rows = fleet.grants.iter().map(|grant| {
        vec![
            grant.peer.as_str().into(),
            grant.direction.as_str().into(),
            grant.class.as_str().into(),
            rate(grant.bytes_per_second as f64).into(),
        ]
    });
    let grants = Table { columns, rows: rows.collect() };
    let grants = if grants.rows.is_empty() { String::new() } else { grants.render(width, paint) };
    wrapped(&parts, width) + &grants
}

/// A line for the copy of the node's log, and one for each log that it keeps; `None` without mirrors.
pub(in crate::cli) fn mirrors(view: &NodeView) -> Option<Table> {
    let mirror = view.mirror.as_ref()?;
    let columns = vec![
        Column::text("mirrored log", 0),
        Column::text("state", 0),
        Column::number("not copied", 0),
        Column::number("kept here", 0),
        Column::number("taken over", 1),
        Column::text("incarnation", 2),
    ];
    let own = mirror.own.iter().map(|own| {
        let state = match own.is_up {
            true => Cell::new("copied", Mood::Good),
            false => Cell::new("mirror away", Mood::Bad),
        };
        let behind = own.behind_bytes.map_or_else(|| "-".into(), size);
        vec![
            "own".into(),
            state,
            behind.into(),
            "-".into(),
            "-".into(),
            view.incarnation.as_str().into(),
        ]
    });
    let kept = mirror.kept.iter().map(|kept| {
        let state = match (kept.is_inherited, kept.is_connected) {
            (true, _) => Cell::new("sent from here", Mood::Warn),
            (_, true) => Cell::new("kept", Mood::Good),
            (_, false) => Cell::new("node away", Mood::Warn),
        };
        vec![
            kept.node.as_str().into(),
            state,
            "-".into(),
            size(kept.bytes).into(),
            kept.inherited_records.to_string().into(),
            kept.incarnation.as_str().into(),
        ]
    });
    Some(Table { columns, rows: own.chain(kept).collect() })
}
