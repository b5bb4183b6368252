//! Screens and keys.

use super::*;
use crate::observe::status::view::ClassView;

fn state(classes: usize) -> State {
    let class = |place| ClassView { name: format!("class-{place}"), ..Default::default() };
    let mut state = State::new(View::Overview, Sort::Given);
    let classes = (0..classes).map(class).collect();
    state.told(NodeView { node: "gate".into(), classes, ..Default::default() });
    state
}

#[test]
fn a_screen_has_exactly_its_rows_and_no_line_is_too_long() {
    let mut state = state(50);
    for (columns, rows) in [(80, 24), (40, 10), (200, 80), (10, 2), (1, 1)] {
        for key in [Key::Char('?'), Key::Escape, Key::Next, Key::Next] {
            state.pressed(key);
            let lines = state.screen(columns, rows, Paint::Plain);
            assert_eq!(lines.len(), rows, "{columns}x{rows}");
            for line in &lines {
                assert!(line.chars().count() <= columns, "{columns}x{rows}: {line:?}");
            }
        }
    }
}

#[test]
fn the_help_fits_80_columns_and_24_rows() {
    assert!(HELP.lines().all(|line| line.len() <= 80), "{HELP}");
    assert!(HELP.lines().count() < 24);
}

#[test]
fn what_does_not_fit_can_be_scrolled_to_and_no_further() {
    let mut state = state(50);
    let lines = state.screen(80, 24, Paint::Plain);
    assert!(lines[0].starts_with("gate  up 0:00:00"), "{lines:?}");
    assert!(lines[23].contains("29 more below"), "{lines:?}");
    for _ in 0..1000 {
        state.pressed(Key::Down);
    }
    let lines = state.screen(80, 24, Paint::Plain);
    assert!(lines[22].starts_with("class-49") && !lines[23].contains("more"), "{lines:?}");
    state.pressed(Key::Up);
    assert!(state.screen(80, 24, Paint::Plain)[22].starts_with("class-48"));
}

#[test]
fn keys_choose_sort_explain_and_quit() {
    let mut state = state(3);
    assert!(state.screen(80, 24, Paint::Plain)[23].contains("[1 overview]"));
    assert!(!state.pressed(Key::Char('3')));
    let lines = state.screen(80, 24, Paint::Plain);
    assert!(lines[23].contains("[3 clients]") && lines[1] == "no clients here", "{lines:?}");
    state.pressed(Key::Back);
    assert!(state.screen(80, 24, Paint::Plain)[23].contains("[2 streams]"));
    state.pressed(Key::Char('s'));
    assert!(state.screen(80, 24, Paint::Plain)[23].contains("sort: name"));
    state.pressed(Key::Char('?'));
    assert!(state.screen(80, 24, Paint::Plain)[0].contains("quit"));
    state.pressed(Key::Escape);
    assert!(state.screen(80, 24, Paint::Plain)[0].starts_with("gate"));
    assert!(state.pressed(Key::Char('q')));
}

#[test]
fn a_node_that_is_away_is_told_above_what_it_said_last_and_comes_back() {
    let mut state = state(2);
    state.missed("connection refused".into());
    let lines = state.screen(120, 24, Paint::Colours);
    assert!(lines[0].contains("node is away since 0 s"), "{lines:?}");
    assert!(
        lines[0].contains("connection refused") && lines[1].starts_with("\x1b[2mgate"),
        "{lines:?}"
    );
    assert!(state.render(200, Paint::Plain).starts_with("node is away"));
    state.told(NodeView { node: "gate".into(), uptime_seconds: 2.0, ..Default::default() });
    assert!(state.screen(80, 24, Paint::Plain)[0].starts_with("gate  up 0:00:02"));
}
