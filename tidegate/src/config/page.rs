//! The page of keys, `docs/reference/configuration.md`: a test holds the copy equal.

use std::fmt::Write;

use super::FileKind;
use super::reference::sections;
use crate::keys::key::{Key, Reload};
use crate::keys::values::{Choice, Shape};

/// The page.
pub fn page() -> String {
    let mut page = String::from(
        "# Keys of a configuration\n\n\
         This page is written from the declarations of the keys, as are `tidegate config` (the same as a file, \
         [reference.toml](../reference.toml)) and `tidegate config --schema` (the same for editors). `tidegate check` \
         looks for more: what must fit together.\n\n\
         *Counts* says when a change of the key counts for a node that runs: after a *reload*, or after a *restart*. A \
         default of *as said* is in the sentence. A table in a table is written `a.b`, a table of a list `a[].b`.\n",
    );
    page.push_str("\n## A node, and a proxy\n");
    sections(FileKind::Node).iter().for_each(|key| section(&mut page, "", key, None));
    page.push_str("\n## An orchestrator\n");
    sections(FileKind::Orchestrator).iter().for_each(|key| section(&mut page, "", key, None));
    page
}

fn section(page: &mut String, above: &str, key: &Key, reload: Option<Reload>) {
    let reload = key.reload.or(reload);
    let _ = write!(page, "\n### `{}`\n\n{}\n\n", key.header(above), cell(&key.about()));
    page.push_str("| key | value | default | counts | what it does |\n|---|---|---|---|---|\n");
    let keys = key.shape().table().unwrap_or_default();
    // Lists of tables without a sample in one line are sections of their own.
    let is_section = |inner: &Key| {
        matches!(inner.shape(), Shape::List(_))
            && inner.shape().table().is_some()
            && inner.sample.is_none()
    };
    let (sections, keys): (Vec<Key>, Vec<Key>) = keys.into_iter().partition(is_section);
    keys.iter().for_each(|inner| row(page, "", inner, reload));
    sections
        .iter()
        .for_each(|inner| section(page, &format!("{above}{}.", key.name), inner, reload));
}

/// A key, and those in it.
fn row(page: &mut String, before: &str, key: &Key, reload: Option<Reload>) {
    let reload = key.reload.or(reload);
    let name = format!("{before}{}", key.name);
    let shape = key.shape();
    let default = match (key.is_required, key.default()) {
        (true, _) => "required".into(),
        (false, Some(default)) if shape.table().is_none() => format!("`{default}`"),
        (false, _) if key.about().contains("Default") => "as said".into(),
        (false, _) => String::new(),
    };
    let mut about = key.about();
    if let Shape::Choice(choices) = &shape {
        about.push_str(&chosen(choices));
    }
    for former in key.former {
        let _ = write!(about, " Formerly `{former}`.");
    }
    let bounds: Vec<&str> = key.bounds.iter().map(|bound| bound.words.as_str()).collect();
    let value = [vec![words(&shape)], bounds.iter().map(ToString::to_string).collect()].concat();
    let _ = writeln!(
        page,
        "| `{name}` | {} | {} | {} | {} |",
        cell(&value.join(", ")),
        cell(&default),
        reload.map_or("", Reload::word),
        cell(&about)
    );
    inside(page, &name, &shape, reload);
}

/// The keys of what stands in a key.
fn inside(page: &mut String, name: &str, shape: &Shape, reload: Option<Reload>) {
    match shape {
        Shape::Table(keys) => {
            keys().iter().for_each(|key| row(page, &format!("{name}."), key, reload));
        }
        Shape::List(inner) => inside(page, &format!("{name}[]"), inner, reload),
        Shape::Choice(choices) => {
            for choice in choices {
                if let Some(inner) = choice.inner {
                    inside(page, &format!("{name}.{}", choice.name), &inner(), reload);
                }
            }
        }
        _ => {}
    }
}

fn chosen(choices: &[Choice]) -> String {
    let one = |choice: &Choice| match choice.about.is_empty() {
        true => format!(" `{}`.", choice.name),
        false => format!(" `{}`: {}", choice.name, choice.about),
    };
    choices.iter().map(one).collect()
}

/// What a value is, in a few words.
fn words(shape: &Shape) -> String {
    match shape {
        Shape::Flag => "true or false".into(),
        Shape::Whole => "whole number".into(),
        Shape::Number => "number".into(),
        Shape::Text => "text".into(),
        Shape::Form(form) => form.name.into(),
        Shape::Choice(_) if shape.is_text() => "a name".into(),
        Shape::Choice(_) => "a name, or a table of one key".into(),
        Shape::List(inner) => format!("list: {}", words(inner)),
        Shape::OneOrMore(inner) => format!("{}, or a list", words(inner)),
        Shape::Map(inner) => format!("by name: {}", words(inner)),
        Shape::Table(_) => "table".into(),
        Shape::Any(_) => "any value".into(),
    }
}

/// As a cell of a table in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}
