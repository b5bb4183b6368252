//! `tidegate plan`: which topics share a node, printed and not done.

mod arguments;
mod read;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use tidegate_cluster::place::model::TrainedModel;
use tidegate_cluster::place::{
    FeasibilityOracle, LatencyModel, Machine, Machines, Physics, PlacementMethod, PlacementProblem,
    Plan, SplitAdvice, Topic, TopicId, TopicMove, fits_alone, help, lower_bound, repair, replica,
    split,
};

pub use self::arguments::PlanArguments;
pub(super) use self::arguments::{PLAN_HELP, part};
use self::read::{Fleet, InForce};

/// Prints a plan; the exit code says whether every topic keeps its bound in it.
///
/// # Errors
/// A file cannot be read or says what cannot be, a method has no such name or gave up.
pub fn plan(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    let fleet = read::fleet(arguments.file.path())?;
    let current = arguments.current.as_deref().map(read::in_force).transpose()?;
    let planned = make(&fleet, current.as_ref(), arguments)?;
    let told = if arguments.json {
        format!("{}\n", show::json(&planned))
    } else {
        show::table(&planned, arguments.explain)
    };
    io::stdout().write_all(told.as_bytes())?;
    Ok(if planned.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a file of topics and nodes can be read.
///
/// # Errors
/// What is wrong with it.
pub fn check(file: &Path) -> Result<(), String> {
    read::fleet(file).map(drop).map_err(|error| format!("{error:#}"))
}

/// Which topic a plan has at which node, in the order of the file.
///
/// # Errors
/// The file cannot be read or is no plan.
pub fn places(file: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let plan = read::in_force(file)?;
    let topics = plan.nodes.into_iter().flat_map(|node| {
        let name = node.name;
        node.topics.into_iter().map(move |topic| (topic.name, name.clone()))
    });
    Ok(topics.collect())
}

/// Reads a machine's model.
///
/// # Errors
/// It cannot be read, or is none of this version.
pub fn model(file: &Path) -> anyhow::Result<TrainedModel> {
    read::learned(file)
}

/// A topic, or a part of one that fits nowhere whole.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    topic: Topic,
}

/// A node of a plan: name, machine, topics with their predicted 90th percentiles in seconds.
type Node = (String, Machine, Vec<(TopicId, f64)>);

/// A plan with all that is told of it.
#[derive(Clone, Debug)]
struct Planned {
    method: String,
    parts: Vec<Part>,
    nodes: Vec<Node>,
    /// What fits nowhere, and what would help it.
    unplaced: Vec<(TopicId, SplitAdvice)>,
    /// What was divided: the topic's name and how.
    divided: Vec<(String, String)>,
    moves: Vec<TopicMove>,
    /// Nodes, by place, where a topic misses its bound.
    broken: Vec<usize>,
    /// Nodes that no plan can do without; 0 where machines differ.
    least: usize,
    margin: f64,
    questions: u64,
}

impl Planned {
    fn is_whole(&self) -> bool {
        self.unplaced.is_empty() && self.broken.is_empty()
    }

    fn node_name(&self, place: usize) -> &str {
        self.nodes.get(place).map_or("", |(name, ..)| name)
    }
}

fn make(
    fleet: &Fleet,
    current: Option<&InForce>,
    arguments: &PlanArguments,
) -> anyhow::Result<Planned> {
    let learned = arguments.model.as_deref().map(read::learned).transpose()?;
    let asked = learned.as_ref().map(|learned| learned.by(arguments.by.unwrap_or_default()));
    let asked = asked.transpose().context("--by")?;
    let model: &dyn LatencyModel = asked.as_ref().map_or(&Physics, |asked| asked);
    let machines = machines(fleet, arguments, learned.as_ref());
    let problem = PlacementProblem {
        topics: &[],
        machines: &machines,
        model,
        together_max: arguments.together as usize,
        margin: arguments.margin,
    };
    let (parts, divided) = parts(fleet, &problem);
    let topics: Vec<Topic> = parts.iter().map(|part| part.topic.clone()).collect();
    let problem = PlacementProblem { topics: &topics, ..problem };
    let mut feasible = FeasibilityOracle::new(problem);
    let default = if current.is_some() { "repair" } else { "improve" };
    let name = arguments.method.as_deref().unwrap_or(default);
    let mut names: Vec<String> = fleet.node.iter().map(|node| node.name.clone()).collect();
    let (plan, moves) = if name == "repair" {
        let Some(current) = current else {
            bail!("repair mends a plan: say which with --current PLAN.json, as --json prints one")
        };
        let before = before(current, &parts, &mut names, !fleet.node.is_empty())?;
        let moves_max = arguments.max_moves.unwrap_or(usize::MAX);
        let found = repair(&mut feasible, &before, moves_max, |_| true);
        (found.plan, found.moves)
    } else {
        ensure!(
            current.is_none(),
            "{name} makes a plan anew and heeds none in force: leave --current out, or say --method repair"
        );
        let method = method(name, arguments.at_once as usize)?;
        let plan =
            method.plan(&mut feasible, arguments.seed, arguments.questions).with_context(|| {
                format!(
                    "{name} gave up after {} questions: say improve, or more --questions",
                    arguments.questions
                )
            })?;
        (plan, Vec::new())
    };
    let least = if fleet.node.is_empty() { lower_bound(&mut feasible).nodes } else { 0 };
    let questions = feasible.questions();
    let mut planned = Planned {
        method: name.to_owned(),
        nodes: Vec::new(),
        unplaced: Vec::new(),
        divided,
        moves,
        broken: Vec::new(),
        least,
        margin: arguments.margin,
        questions,
        parts,
    };
    fill(&mut planned, &plan, &mut feasible, names, fleet);
    Ok(planned)
}

/// Puts in what the model says of each node, and what would help those without one.
fn fill(
    planned: &mut Planned,
    plan: &Plan,
    feasible: &mut FeasibilityOracle<'_>,
    mut names: Vec<String>,
    fleet: &Fleet,
) {
    let mut fresh = (1..).map(|number| format!("node-{number}"));
    while names.len() < plan.nodes.len() {
        let name = fresh.find(|name| !names.contains(name)).unwrap_or_default();
        names.push(name);
    }
    let problem = *feasible.problem();
    for (place, hosted) in plan.nodes.iter().enumerate() {
        let Some(&machine) = problem.machines.nth(place) else { continue };
        let p90 = feasible.p90(&machine, hosted.iter().copied());
        if !hosted.is_empty() && !feasible.fits(&machine, hosted.iter().copied()) {
            planned.broken.push(place);
        }
        planned.nodes.push((
            names[place].clone(),
            machine,
            hosted.iter().copied().zip(p90).collect(),
        ));
    }
    for &topic in &plan.unplaced {
        let part = &planned.parts[topic.index()];
        let keys =
            fleet.topic.iter().find(|spec| spec.name == part.name).map_or(1, |spec| spec.keys);
        planned.unplaced.push((topic, help(&problem, &part.topic, keys)));
    }
}

fn machines(fleet: &Fleet, arguments: &PlanArguments, learned: Option<&TrainedModel>) -> Machines {
    let contention = read::usual_contention();
    let usual = Machine { cores: 4.0, speed: 1.0, contention, bias: 1.0 };
    let usual = learned.map_or(usual, |learned| learned.machine.machine());
    if fleet.node.is_empty() {
        Machines::Any(Machine { cores: arguments.cores.unwrap_or(usual.cores), ..usual })
    } else {
        Machines::Listed(fleet.node.iter().map(|node| node.machine(&usual)).collect())
    }
}

/// The topics, those that fit nowhere whole in as few parts as fit, if they may be divided.
fn parts(fleet: &Fleet, problem: &PlacementProblem<'_>) -> (Vec<Part>, Vec<(String, String)>) {
    let (mut parts, mut divided) = (Vec::new(), Vec::new());
    for spec in &fleet.topic {
        let (topic, name) = (spec.topic(), spec.name.clone());
        let wanted = if fits_alone(problem, &topic) {
            SplitAdvice::default()
        } else {
            help(problem, &topic, spec.keys)
        };
        let (count, part, how) = match (wanted.split, wanted.replicas) {
            (Some(count), _) => (count, split(&topic, count), "by key"),
            (None, Some(count)) => (count, replica(&topic, count), "by subscribers"),
            (None, None) => {
                parts.push(Part { name, topic });
                continue;
            }
        };
        divided.push((name.clone(), format!("{count} parts, {how}")));
        for nth in 1..=count {
            parts.push(Part { name: format!("{name}#{nth}"), topic: part.clone() });
        }
    }
    (parts, divided)
}

fn method(name: &str, at_once: usize) -> anyhow::Result<PlacementMethod> {
    Ok(match name {
        "ffd" => PlacementMethod::FirstFit,
        "lfs" => PlacementMethod::LargestSet,
        "lfs+ffd" => PlacementMethod::Hybrid(at_once),
        "pairs" => PlacementMethod::Pairs,
        "improve" => PlacementMethod::Improve,
        _ => bail!("no method {name:?}: there are ffd, lfs, lfs+ffd, pairs, improve and repair"),
    })
}

/// The plan in force, as far as its topics and nodes are still there.
fn before(
    current: &InForce,
    parts: &[Part],
    names: &mut Vec<String>,
    is_listed: bool,
) -> anyhow::Result<Plan> {
    let of: BTreeMap<&str, u32> =
        (0_u32..).zip(parts).map(|(id, part)| (part.name.as_str(), id)).collect();
    let mut plan = Plan { nodes: vec![Vec::new(); names.len()], unplaced: Vec::new() };
    let mut is_hosted = vec![false; parts.len()];
    for node in &current.nodes {
        let place = match names.iter().position(|name| *name == node.name) {
            Some(place) => place,
            // Its topics look for another node.
            None if is_listed => continue,
            None => {
                names.push(node.name.clone());
                plan.nodes.push(Vec::new());
                names.len() - 1
            }
        };
        for topic in &node.topics {
            let Some(&id) = of.get(topic.name.as_str()) else { continue };
            ensure!(!is_hosted[id as usize], "the plan in force has topic {:?} twice", topic.name);
            is_hosted[id as usize] = true;
            plan.nodes[place].push(TopicId(id));
        }
    }
    Ok(plan)
}
