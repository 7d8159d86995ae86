//! Choices for the kernels of programs: one value, which both lowering and the shaders are made with.
//!
//! In: a problem. Out: its choice: what was measured for it, otherwise what the rule says. Always holds: the
//! choice fits the limits, and cuts sums into no more parts than have terms; equal values give equal choices,
//! so that the scratch which lowering counts is what the shaders use.

use super::{Choice, Problem};
use crate::limits::Limits;
use crate::product::DotProblem;
use crate::schedule::precision::Precision;
use crate::schedule::{attention, product as schedule};
use gradloom_core::kernel::ProductChoice;

/// The choices for products and attention.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    precision: Precision,
    /// They are few.
    measured: Vec<(Problem, Choice)>,
}

/// Whatever the order in which they were set.
impl PartialEq for Choices {
    fn eq(&self, other: &Self) -> bool {
        let has = |(problem, choice): (&Problem, &Choice)| other.measured_for(problem) == Some(choice);
        self.precision == other.precision
            && self.measured.len() == other.measured.len()
            && self.measured().all(has)
    }
}

impl Choices {
    /// Creates the choices of the rules, for everything.
    pub fn by_rule(precision: Precision) -> Self {
        Self { precision, measured: Vec::new() }
    }

    /// Returns the type in which products may multiply.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Sets the choice for a problem, which must suit the limits that shaders are made for
    /// ([`Choice::suits`]). Programs that were lowered before need their own value.
    pub fn insert(&mut self, problem: Problem, choice: Choice) {
        match self.measured.iter_mut().find(|(known, _)| *known == problem) {
            Some((_, known)) => *known = choice,
            None => self.measured.push((problem, choice)),
        }
    }

    /// Returns true if a problem has a choice of its own.
    pub fn is_measured(&self, problem: &Problem) -> bool {
        self.measured_for(problem).is_some()
    }

    /// Returns the problems that have a choice of their own, in the order in which they first got one.
    pub fn measured(&self) -> impl ExactSizeIterator<Item = (&Problem, &Choice)> {
        self.measured.iter().map(|(problem, choice)| (problem, choice))
    }

    fn measured_for(&self, problem: &Problem) -> Option<&Choice> {
        self.measured().find_map(|(known, choice)| (known == problem).then_some(choice))
    }

    /// Returns the choice for a product on an adapter with these limits.
    pub fn product(&self, problem: &DotProblem, limits: &Limits) -> ProductChoice {
        let choice = match self.measured_for(&Problem::Product(problem.clone())) {
            Some(Choice::Product(choice)) => *choice,
            _ => schedule::choose(problem, limits.operands(self.precision), limits),
        };
        choice.without_empty_parts(problem.k)
    }

    /// Returns the choice for one of attention's kernels on an adapter with these limits.
    pub fn attention(
        &self,
        kernel: attention::Kernel,
        problem: &attention::Problem,
        limits: &Limits,
    ) -> attention::Choice {
        match self.measured_for(&Problem::Attention(kernel, *problem)) {
            Some(Choice::Attention(choice)) => *choice,
            _ => attention::choose(kernel, problem, limits.half(self.precision).is_some(), limits),
        }
    }
}
