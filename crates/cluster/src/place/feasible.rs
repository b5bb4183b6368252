//! The feasibility function: whether topics keep their bounds together.
//! Source: papers/topic-placement.txt, §V-A (F, Eq. 5 and 6).
//! Inputs: topics, a machine, a model of their 90th percentiles. Outputs: yes or no.
//! Deviations: each topic has a bound of its own, and a margin takes a part of it; a topic that misses its bound
//! alone is infeasible, where the paper assumes that there is none (Property 1a)
//! (docs/algorithms-place.md#feasibility).
//! Limits: none.

use super::{Machine, PlacementProblem, Topic, TopicId};

/// Asks the model about sets of topics, and counts how often.
pub struct FeasibilityOracle<'a> {
    problem: PlacementProblem<'a>,
    questions: u64,
    set: Vec<&'a Topic>,
    p90: Vec<f64>,
    together: Vec<Option<usize>>,
}

impl<'a> FeasibilityOracle<'a> {
    /// Nothing asked yet.
    pub fn new(problem: PlacementProblem<'a>) -> Self {
        FeasibilityOracle {
            problem,
            questions: 0,
            set: Vec::new(),
            p90: Vec::new(),
            together: Vec::new(),
        }
    }

    /// The problem.
    pub fn problem(&self) -> &PlacementProblem<'a> {
        &self.problem
    }

    /// Sets that the model was asked about.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    /// Whether these topics keep their bounds on a machine, and are not too many.
    pub fn fits(&mut self, machine: &Machine, topics: impl IntoIterator<Item = TopicId>) -> bool {
        let PlacementProblem { topics: all, model, together_max, margin, .. } = self.problem;
        self.set.clear();
        self.set.extend(topics.into_iter().map(|topic| &all[topic.index()]));
        let load: f64 = self.set.iter().map(|topic| topic.load()).sum();
        if self.set.len() > together_max || load > model.load_max(machine, self.set.len()) + 1e-12 {
            return false;
        }
        self.questions += 1;
        self.p90.clear();
        model.p90(machine, &self.set, &mut self.p90);
        let keeps = |(topic, p90): (&&super::Topic, &f64)| {
            *p90 <= topic.bound.as_secs_f64() * (1.0 - margin)
        };
        self.set.iter().zip(&self.p90).all(keeps)
    }

    /// The most topics among which this one keeps its bound on the best machine, itself included, if the others
    /// do nothing at all; 0 where it misses its bound alone. Asked once for each topic.
    pub fn together(&mut self, topic: TopicId) -> usize {
        let PlacementProblem { topics, machines, together_max, .. } = self.problem;
        if self.together.is_empty() {
            self.together = vec![None; topics.len()];
        }
        if let Some(known) = self.together[topic.index()] {
            return known;
        }
        let Some(machine) = machines.best() else { return 0 };
        let (mut fits, mut too_many) = (0, together_max + 1);
        while too_many - fits > 1 {
            let middle = fits.midpoint(too_many);
            if self.fits_among_idle(&machine, topic, middle - 1) {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        self.together[topic.index()] = Some(fits);
        fits
    }

    fn fits_among_idle(&mut self, machine: &Machine, topic: TopicId, others: usize) -> bool {
        let PlacementProblem { topics, model, margin, .. } = self.problem;
        let topic = &topics[topic.index()];
        self.set.clear();
        self.set.push(topic);
        self.set.extend(std::iter::repeat_n(&Topic::IDLE, others));
        self.questions += 1;
        self.p90.clear();
        model.p90(machine, &self.set, &mut self.p90);
        self.p90[0] <= topic.bound.as_secs_f64() * (1.0 - margin)
    }

    /// The 90th percentile of each of these topics on a machine, in seconds.
    pub fn p90(
        &mut self,
        machine: &Machine,
        topics: impl IntoIterator<Item = TopicId>,
    ) -> Vec<f64> {
        let all = self.problem.topics;
        self.set.clear();
        self.set.extend(topics.into_iter().map(|topic| &all[topic.index()]));
        self.questions += 1;
        let mut answer = Vec::new();
        self.problem.model.p90(machine, &self.set, &mut answer);
        answer
    }

    /// Topics in decreasing order of their latency alone on the first machine; equal ones by load, then by
    /// place.
    pub fn by_latency_alone(&mut self) -> Vec<TopicId> {
        let Some(machine) = self.problem.machines.nth(0).copied() else { return self.all() };
        let mut ranked: Vec<(f64, TopicId)> = Vec::new();
        for topic in self.all() {
            let alone = self.p90(&machine, [topic]).first().copied();
            ranked.push((alone.unwrap_or(f64::INFINITY), topic));
        }
        let load = |topic: TopicId| self.problem.topics[topic.index()].load();
        ranked.sort_by(|(a, one), (b, other)| {
            b.total_cmp(a).then(load(*other).total_cmp(&load(*one))).then(one.cmp(other))
        });
        ranked.into_iter().map(|(_, topic)| topic).collect()
    }

    /// All topics, by place.
    pub fn all(&self) -> Vec<TopicId> {
        (0..self.problem.topics.len() as u32).map(TopicId).collect()
    }
}
