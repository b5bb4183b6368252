use std::path::PathBuf;

use tidegate_cluster::place::model::ModelKind;

use super::*;
use crate::cli::file::RequiredFile;

const FLEET: &str = r#"
[[topic]]
name = "gps"
rate = 40
work = "12ms"
bound = "300ms"
[[topic]]
name = "update"
rate = 2
work = "20ms"
bound = "1s"
subscribers = 200
[[topic]]
name = "video"
rate = 30
work = "40ms"
bound = "150ms"
[[node]]
name = "edge-1"
cores = 2
[[node]]
name = "edge-2"
cores = 2
[[node]]
name = "edge-3"
cores = 2
"#;

fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tidegate-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    folder.join(name)
}

fn arguments(file: PathBuf) -> PlanArguments {
    PlanArguments {
        file: RequiredFile::of(file),
        method: None,
        together: 32,
        at_once: 3,
        margin: 0.1,
        cores: None,
        model: None,
        by: None,
        current: None,
        max_moves: None,
        explain: false,
        json: false,
        questions: 100_000,
        seed: 1,
    }
}

fn planned(arguments: &PlanArguments) -> anyhow::Result<Planned> {
    let current = arguments.current.as_deref().map(read::in_force).transpose()?;
    make(&read::fleet(arguments.file.path())?, current.as_ref(), arguments)
}

fn error(arguments: &PlanArguments) -> String {
    format!("{:#}", planned(arguments).unwrap_err())
}

#[test]
fn a_plan_is_told_to_people() {
    let found = planned(&arguments(file("told.toml", FLEET))).unwrap();
    assert!(found.is_whole());
    let wanted = [
        "node    topics   load  tightest topic",
        "edge-1       3    86%  video: p90 108.2 ms of 150ms (72 %)",
        "          video: p90 108.2 ms of 150ms (72 %)",
        "          update: p90 239.2 ms of 1s (24 %)",
        "          gps: p90 193.7 ms of 300ms (65 %)",
        "3 topics on 1 node by improve; 10 % of each bound kept free",
    ];
    assert_eq!(show::table(&found, true).lines().collect::<Vec<_>>(), wanted);
    let short = show::table(&found, false);
    assert!(short.lines().count() < show::table(&found, true).lines().count(), "{short}");
}

#[test]
fn what_is_printed_as_json_can_be_in_force_and_few_topics_move() {
    let made = planned(&arguments(file("first.toml", FLEET))).unwrap();
    let in_force = file("plan.json", &show::json(&made).to_string());
    let mend = PlanArguments { current: Some(in_force), ..arguments(file("same.toml", FLEET)) };
    let same = planned(&mend).unwrap();
    assert_eq!((same.method.as_str(), same.moves.len()), ("repair", 0), "nothing has changed");

    // What shares a node with another one grows beyond it.
    let grown = FLEET.replace("rate = 40", "rate = 130");
    let mend = PlanArguments { file: RequiredFile::of(file("grown.toml", &grown)), ..mend };
    let mended = planned(&mend).unwrap();
    assert!(mended.is_whole(), "{}", show::table(&mended, true));
    assert!(mended.moves.len() <= 2, "{:?}", mended.moves);
    let none = planned(&PlanArguments { max_moves: Some(0), ..mend }).unwrap();
    assert!(none.moves.is_empty() && none.is_whole() == mended.moves.is_empty());
}

#[test]
fn a_topic_that_fits_nowhere_is_divided_or_named_with_what_would_help() {
    let fast = FLEET.replace("rate = 40", "rate = 400");
    let found = planned(&arguments(file("fast.toml", &fast))).unwrap();
    assert!(!found.is_whole());
    let told = show::table(&found, false);
    assert!(told.contains("gps has no node: what would help: at most "), "{told}");
    assert!(told.contains("keys = N"), "{told}");

    let keyed = fast.replace("name = \"gps\"", "name = \"gps\"\nkeys = 100");
    let without_nodes = keyed.split("[[node]]").next().unwrap().to_owned();
    let found = planned(&arguments(file("keyed.toml", &without_nodes))).unwrap();
    let told = show::table(&found, true);
    assert!(found.is_whole() && told.contains("gps fits no node whole: 2 parts, by key"), "{told}");
    assert!(told.contains("gps#1: p90 ") && told.contains("gps#2: p90 "), "{told}");
}

#[test]
fn the_same_topics_come_from_json_and_csv() {
    let csv = "name,rate,work,bound,subscribers,serial\n\
               gps,40,12ms,300ms,,\nupdate,2,20ms,1s,200,false\nvideo,30,40ms,150ms,1,false\n";
    let json = r#"{"topic": [
        {"name": "gps", "rate": 40, "work": "12ms", "bound": "300ms"},
        {"name": "update", "rate": 2, "work": "20ms", "bound": "1s", "subscribers": 200},
        {"name": "video", "rate": 30, "work": "40ms", "bound": "150ms"}]}"#;
    let toml = FLEET.split("[[node]]").next().unwrap();
    let tables =
        [("same.csv", csv), ("same.json", json), ("alike.toml", toml)].map(|(name, text)| {
            let found = planned(&arguments(file(name, text))).unwrap();
            show::table(&found, true)
        });
    assert_eq!(tables[0], tables[2]);
    assert_eq!(tables[1], tables[2]);
}

#[test]
fn what_is_wrong_is_named_with_its_cure() {
    let right = file("right.toml", FLEET);
    let by = |name: &str| PlanArguments { method: Some(name.into()), ..arguments(right.clone()) };
    assert!(error(&by("best")).contains("there are ffd, lfs, lfs+ffd, pairs, improve and repair"));
    assert!(error(&by("repair")).contains("--current PLAN.json"));
    let hasty = PlanArguments { questions: 1, ..by("lfs") };
    assert!(
        error(&hasty).contains("lfs gave up after 1 questions: say improve"),
        "{}",
        error(&hasty)
    );
    let wrong = |name: &str, text: &str| error(&arguments(file(name, text)));
    assert!(
        wrong("twice.toml", &FLEET.replace("update", "gps")).contains("\"gps\" is there twice")
    );
    assert!(wrong("none.toml", "").contains("it has no topic: write [[topic]]"));
    assert!(wrong("unit.toml", &FLEET.replace("12ms", "12")).contains("write a number and a unit"));
    assert!(
        wrong("key.toml", &FLEET.replace("rate = 2", "rat = 2")).contains("unknown field `rat`")
    );
    assert!(wrong("cores.toml", &FLEET.replace("cores = 2", "cores = 0")).contains("cores is 0.1"));
    assert!(wrong("wide.csv", "name,rate\na,1,2\n").contains("line 2: 3 values under 2 names"));
    assert!(wrong("plan.txt", FLEET).contains("name it .toml, .json or .csv"));
    for name in ["ffd", "lfs", "lfs+ffd", "pairs", "improve"] {
        assert!(planned(&by(name)).unwrap().is_whole(), "{name}");
    }
}

#[test]
fn a_measured_machine_is_planned_with() {
    let topics = FLEET.split("[[node]]").next().unwrap();
    let usual = arguments(file("measured.toml", topics));
    let machine = r#"{ "version": 1, "measured": "by hand", "scheduler": "edf",
        "machine": { "cores": 1.5, "contention": 0.02, "bias": 1.2, "overhead_seconds": 1e-4,
            "copy_seconds": 1e-5, "latency_seconds": 5e-4 },
        "spread": { "inside": [-0.1, 0.1], "outside": [-0.2, 0.2] } }"#;
    let by = |text: &str| PlanArguments { model: Some(file("edge.json", text)), ..usual.clone() };
    let found = planned(&by(machine)).unwrap();
    assert!(found.nodes.iter().all(|(_, machine, _)| machine.cores == 1.5 && machine.bias == 1.2));
    // 30 records/s of 40 ms take most of it.
    assert_eq!((found.is_whole(), found.nodes.len()), (false, 1), "{}", show::table(&found, true));
    let wider = PlanArguments { cores: Some(4.0), by: Some(ModelKind::Physics), ..by(machine) };
    assert!(planned(&wider).unwrap().is_whole());
    let paper = PlanArguments { by: Some(ModelKind::Paper), ..by(machine) };
    assert_eq!(error(&paper), "--by: the file has no model paper: it was not trained with it");
    let newer = error(&by(&machine.replace("\"version\": 1", "\"version\": 2")));
    assert!(newer.ends_with("edge.json: version 2, and this program reads 1: train it again, or take a newer program"), "{newer}");
}
