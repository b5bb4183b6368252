//! Holds the repository to its conventions, under plain `cargo test`.
//!
//! Each rule is a function from files to problems, with a test beside it that it bites. The lists of
//! exceptions are ratchets: they record what is, and a number in them may fall, never rise.

mod circles;
mod code;
mod documents;
pub(crate) mod files;
mod glossary;
mod manifests;
mod packages;
mod pages;
mod plot;
mod program;
mod promises;
pub(crate) mod registry;
mod text;

use self::files::{File, repository};

/// A rule: what is wrong with these files, one line each.
type Rule = fn(&[File]) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("files are short", |files| code::file_sizes(files, code::OVERSIZED)),
    ("algorithms say where they come from", code::algorithm_headers),
    ("algorithms by name are listed", registry::page_is_that_of_the_lists),
    ("unwrap is rare", |files| code::unwraps_are_rare(files, code::UNWRAPS_PER_KLOC)),
    ("unsafe code stays in its file", code::unsafe_stays_in_its_file),
    ("rooms use what is below them", manifests::arrows_lead_down),
    ("rooms are read in an afternoon", manifests::rooms_are_small),
    ("rooms know no clock, socket or file", manifests::rooms_have_the_same_bans),
    ("files of a room make no circle", circles::files_make_no_circle),
    ("folders of the program use what is below them", |files| {
        program::folders_use_what_is_below(files, program::NOT_YET)
    }),
    ("folders of the program make no circle", program::folders_make_no_circle),
    ("the driver contract knows no driver", program::the_contract_knows_no_driver),
    ("files of the program have a place", program::files_have_a_place),
    ("types have names of their own", glossary::types_have_names_of_their_own),
    ("inner types leave public names alone", glossary::inner_types_leave_public_names_alone),
    ("the glossary names types that exist", glossary::glossary_names_types_that_exist),
    ("opening pages name every file", pages::tables_name_every_file),
    ("opening pages show the room used", pages::pages_have_an_example),
    ("crates inherit the lints", manifests::crates_inherit_lints),
    ("every clippy.toml repeats the shared keys", manifests::clippy_keys_agree),
    ("banned crates stay out", manifests::banned_crates_stay_out),
    ("reminders name an issue", text::reminders_name_an_issue),
    ("files serve on every machine", text::files_are_portable),
    ("metrics are documented", text::metrics_are_documented),
    ("alerts ask for metrics", text::alerts_ask_for_metrics),
    ("documents name files that exist", text::documents_name_real_files),
    ("links lead somewhere", documents::links_lead_somewhere),
    ("the walk is true", documents::the_walk_is_true),
    ("blocks of documents parse", documents::blocks_parse),
    ("promises name tests that exist", promises::attacks_have_tests),
];

/// What breaks a rule, one line each.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let broken = |(name, rule): &(&str, Rule)| {
        let lines = rule(files).into_iter();
        lines.map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
    };
    RULES.iter().flat_map(broken).collect()
}

#[test]
fn the_repository_is_tidy() {
    let mut files = repository();
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "the repository was not found");
    if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
        let page = registry::page(&files);
        files::write(&mut files, registry::PAGE, page);
    }
    let problems = problems(&files);
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn report_what_the_ratchets_measure() {
    let files = repository();
    for (name, limit) in code::UNWRAPS_PER_KLOC {
        let (found, lines) = code::unwraps(&files, name);
        println!("{name}: {found} unwrap or expect in {lines} lines (at most {limit} in 1000)");
    }
    let product = files.iter().filter(|file| file.is_rust() && !file.is_test());
    let mut sizes: Vec<_> = product.map(|file| (file.product_lines().len(), &file.path)).collect();
    sizes.sort();
    for (lines, path) in sizes.iter().rev().take(5) {
        println!("{path}: {lines} lines");
    }
    let rooms = manifests::ROOMS.iter().map(|(room, _)| (*room, code::lines_of_code(&files, room)));
    let rooms: Vec<_> = rooms.collect();
    let all: usize = rooms.iter().map(|(_, lines)| lines).sum();
    println!("rooms: {all} lines of code, {rooms:?}");
    let documents::Looked { links, anchors, blocks } = documents::looked(&files);
    println!(
        "documents: {links} links, {anchors} to a heading, {blocks} blocks of TOML, JSON and shell"
    );
}
