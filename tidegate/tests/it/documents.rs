//! Every configuration that a reader may copy from a document is right.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate::assemble::node_options;
use tidegate::config::{OrchestrateConfig, read};
use tidegate::fleet::orchestrate::{Lead, OrchestrateOptions};
use tidegate::metrics::{ALL, Metric};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What is wrong with a configuration; nothing if all is well.
fn complaints(file: &str, text: &str) -> String {
    let reading = read(text);
    let told = reading.render(file, text);
    if told.is_empty() {
        node_options(&reading.config, 1, 1).expect("a file without findings makes a node");
    }
    told
}

/// The blocks between ```toml and ```; more words may stand behind `toml`.
fn blocks(document: &str) -> Vec<&str> {
    let parts = document.split("```toml").skip(1);
    parts.filter_map(|part| part.split_once('\n')?.1.split("```").next()).collect()
}

#[test]
fn configurations_in_documents_are_right() {
    let pages = fs::read_dir(root().join("docs/scripts")).unwrap();
    let pages = pages.map(|page| format!("docs/scripts/{}", page.unwrap().file_name().display()));
    let documents = [
        "README.md",
        "docs/SCRIPTS.md",
        "docs/CAMERAS.md",
        "docs/OPERATORS.md",
        "docs/start.md",
        "docs/migrate/mosquitto.md",
        "docs/migrate/telegraf.md",
    ]
    .map(str::to_owned);
    for document in &documents.into_iter().chain(pages).collect::<Vec<_>>() {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let blocks = blocks(&text);
        assert!(!blocks.is_empty(), "{document} shows no configuration");
        for block in blocks {
            assert_eq!(complaints(document, block), "", "{block}");
        }
    }
}

#[test]
fn every_script_has_a_page_and_every_page_a_script() {
    let names = |folder: &str, ending: &str| -> BTreeSet<String> {
        let files = fs::read_dir(root().join(folder)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| Some(name.strip_suffix(ending)?.to_owned())).collect()
    };
    let mut scripts = names("tidegate/lua", ".luau");
    // What is run before every script, to bound the library.
    scripts.remove("prelude");
    assert_eq!(scripts, names("docs/scripts", ".md"));
}

#[test]
fn the_guide_says_of_each_metric_what_the_node_says() {
    let guide = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    for Metric { name, kind, help } in ALL {
        let kind = format!("{kind:?}").to_lowercase();
        let row = format!("| `{name}` | {kind} | {help} |\n");
        assert!(guide.contains(&row), "the guide lacks\n{row}");
    }
}

/// What an orchestrator would do with a file; its keys need not be there.
fn orchestrator(text: &str) -> OrchestrateOptions {
    let config: OrchestrateConfig =
        toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    OrchestrateOptions::try_from(config.orchestrator)
        .unwrap_or_else(|error| panic!("{error:#}\n{text}"))
}

#[test]
fn orchestrators_in_the_guide_and_in_packages_are_right() {
    let guide = fs::read_to_string(root().join("docs/howto/fleet.md")).unwrap();
    let shown: Vec<&str> =
        blocks(&guide).into_iter().filter(|block| block.starts_with("[orchestrator]")).collect();
    let is_one_of_several =
        |options: &OrchestrateOptions| matches!(options.lead, Lead::Elected { .. });
    let several = shown.iter().filter(|text| is_one_of_several(&orchestrator(text))).count();
    assert_eq!((shown.len(), several), (2, 1));
    let file = fs::read_to_string(root().join("packaging/fleet.toml")).unwrap();
    assert!(is_one_of_several(&orchestrator(&file)));
}

/// The texts of a key that is a block, `key: |`, without its indentation.
fn yaml_blocks(text: &str, key: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.iter().enumerate().filter(|(_, line)| line.trim() == format!("{key}: |"));
    let block = |(place, head): (usize, &&str)| {
        let own = lines[place + 1..].iter().take_while(|line| indent(line) > indent(head));
        own.map(|line| line.trim_start()).collect::<Vec<_>>().join("\n")
    };
    heads.map(block).collect()
}

#[test]
fn the_composition_has_three_orchestrators_that_find_each_other() {
    let text = fs::read_to_string(root().join("packaging/compose.yaml")).unwrap();
    let all: Vec<OrchestrateOptions> =
        yaml_blocks(&text, "content").iter().map(|one| orchestrator(one)).collect();
    assert_eq!(all.len(), 3);
    for (place, options) in all.iter().enumerate() {
        let Lead::Elected { etcd, address, .. } = &options.lead else { panic!("{options:?}") };
        let own = format!("orch-{}", place + 1);
        assert_eq!(*address, format!("{own}:{}", options.listen[0].port()));
        assert_eq!(options.tls.certificate, Path::new("/pki").join(format!("{own}.pem")));
        assert!(text.contains(&format!("\n  {own}:\n    <<: *orchestrator")));
        for url in etcd {
            let host = url.trim_start_matches("https://").trim_end_matches(":2379");
            assert!(text.contains(&format!("\n  {host}:\n    <<: *etcd")), "{host}");
            assert!(text.contains(&format!("--advertise-client-urls {url}\n")), "{url}");
        }
    }
}

#[test]
fn units_are_understood_by_systemd() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("units");
    fs::create_dir_all(&folder).unwrap();
    for name in ["tidegate.service", "tidegate-orchestrate.service"] {
        let unit = fs::read_to_string(root().join("packaging").join(name)).unwrap();
        // The programs that it starts must be there: ours is where it was built.
        let unit = unit.replace("/usr/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"));
        let file = folder.join(name);
        fs::write(&file, unit).unwrap();
        let Ok(said) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
            println!("skipped: needs systemd-analyze (systemd), not found");
            return;
        };
        let words = String::from_utf8_lossy(&said.stderr);
        let about: Vec<&str> = words.lines().filter(|line| line.contains(name)).collect();
        assert!(about.is_empty(), "{about:#?}");
    }
}
