use super::super::samples::topic;
use super::*;

fn machine() -> MachineParameters {
    MachineParameters { cores: 1.7, ..usual(2) }
}

fn learned() -> TrainedModel {
    TrainedModel::calibrated("by hand".into(), Dispatch::Edf, machine(), &[-0.2, 0.0, 0.1, 0.3])
}

/// Adds this to every logarithm up to six topics.
fn trees(value: f64) -> BoostedTrees {
    let leaf = RegressionTree {
        feature: vec![0],
        threshold: vec![0.0],
        left: vec![0],
        right: vec![0],
        value: vec![value],
    };
    let (mut low, mut high) = (vec![-100.0; FEATURES.len()], vec![100.0; FEATURES.len()]);
    (low[0], high[0]) = (1.0, 6.0);
    BoostedTrees {
        features: FEATURES.map(str::to_owned).to_vec(),
        low,
        high,
        base: 0.0,
        trees: vec![leaf],
    }
}

fn asked(learned: &TrainedModel, by: ModelKind, topics: usize) -> f64 {
    let topics = vec![topic(4, 20.0); topics];
    let (all, mut answer): (Vec<&Topic>, _) = (topics.iter().collect(), Vec::new());
    learned.by(by).unwrap().p90(&machine().machine(), &all, &mut answer);
    answer[0]
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let written = TrainedModel {
        residual: Some(trees(0.1)),
        paper: Some(PaperModel::default()),
        ..learned()
    };
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(TrainedModel::read(&text).unwrap(), written);
}

#[test]
fn what_cannot_be_is_named() {
    let text = serde_json::to_string(&learned()).unwrap();
    let wrong = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        TrainedModel::read(&text.replace(from, to)).unwrap_err().to_string()
    };
    let newer = wrong("\"version\":1", "\"version\":2,\"what_is_this\":3");
    assert!(newer.starts_with("version 2, and this program reads 1"), "{newer}");
    assert_eq!(wrong("\"cores\":1.7", "\"cores\":0.0"), "machine: cores is 0, which cannot be");
    assert!(wrong("\"measured\"", "\"measure\"").starts_with("no latency model: "));
    assert!(TrainedModel::read("{").is_err());
    let missing = learned().by(ModelKind::Paper).map(drop).unwrap_err().to_string();
    assert!(missing.contains("no model paper"), "{missing}");
}

#[test]
fn trees_are_asked_where_they_know_something() {
    let with = TrainedModel { residual: Some(trees(0.2)), ..learned() };
    let factor = |topics| {
        asked(&with, ModelKind::Learned, topics) / asked(&with, ModelKind::Physics, topics)
    };
    assert!((factor(6) - 0.2_f64.exp()).abs() < 1e-12);
    // Outside of their hull a prediction is what nine of ten keep: 0.3 by hand.
    assert!((factor(7) - 0.3_f64.exp()).abs() < 1e-12);
}

#[test]
fn no_set_is_feasible_beyond_the_greatest_load() {
    let learned = learned();
    let model = learned.by(ModelKind::Learned).unwrap();
    let machine = machine().machine();
    let most = model.load_max(&machine, 4);
    let over = vec![topic(10, most / 0.04 * 1.001); 4];
    let (all, mut answer): (Vec<&Topic>, _) = (over.iter().collect(), Vec::new());
    model.p90(&machine, &all, &mut answer);
    assert_eq!(answer, [f64::INFINITY; 4]);
}

/// What Python says by a small model of every kind (`python/tests/model_fixture.py`).
#[derive(Deserialize)]
struct Parity {
    model: serde_json::Value,
    cases: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    topics: Vec<SaidTopic>,
    learned: Vec<Option<f64>>,
    physics: Vec<Option<f64>>,
    paper: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct SaidTopic {
    rate: f64,
    work_seconds: f64,
    work_cv: f64,
    subscribers: u32,
    bound_seconds: f64,
    serial: bool,
}

#[test]
fn predictions_are_those_of_python() {
    let Parity { model, cases } = serde_json::from_str(include_str!("parity.json")).unwrap();
    let learned = TrainedModel::read(&model.to_string()).unwrap();
    let time = std::time::Duration::from_secs_f64;
    let (mut answer, mut inside) = (Vec::new(), 0);
    for said in &cases {
        let topic = |topic: &SaidTopic| Topic {
            work: time(topic.work_seconds),
            work_cv: topic.work_cv,
            rate: topic.rate,
            subscribers: topic.subscribers,
            bound: time(topic.bound_seconds),
            is_serial: topic.serial,
        };
        let topics: Vec<Topic> = said.topics.iter().map(topic).collect();
        let all: Vec<&Topic> = topics.iter().collect();
        for (by, wanted) in
            ModelKind::ALL.into_iter().zip([&said.learned, &said.physics, &said.paper])
        {
            answer.clear();
            learned.by(by).unwrap().p90(&learned.machine.machine(), &all, &mut answer);
            for (found, wanted) in answer.iter().zip(wanted) {
                let wanted = wanted.unwrap_or(f64::INFINITY);
                let is_same = *found == wanted || (found / wanted - 1.0).abs() < 1e-6;
                assert!(is_same, "{by:?}: {found}, in Python {wanted}");
            }
        }
        let outside = learned.spread.outside[1].exp();
        let pairs = said.learned.iter().zip(&said.physics);
        inside += pairs
            .filter(|(one, other)| match (one, other) {
                (Some(one), Some(other)) => (one / other / outside - 1.0).abs() > 1e-9,
                _ => false,
            })
            .count();
    }
    assert!(cases.len() > 20 && inside > 10, "{inside} inside of the hull");
}
