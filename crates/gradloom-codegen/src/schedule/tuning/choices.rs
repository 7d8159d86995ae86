//! Choices for the kernels of programs, in a value that both lowering and code generation use.
//!
//! In: a problem. Out: its measured choice, or else that of the rule. Invariant: the choice fits the limits,
//! and leaves no part of a cut sum empty. Equal values contain equal choices, so lowering reserves as much
//! scratch as the shaders use.

use super::{Choice, Problem};
use crate::limits::Limits;
use crate::product::DotProblem;
use crate::schedule::precision::Precision;
use crate::schedule::{attention, product as schedule};
use gradloom_core::kernel::ProductChoice;
use std::collections::HashMap;

/// The choices for products and attention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    precision: Precision,
    measured: HashMap<Problem, Choice>,
}

impl Choices {
    /// Creates choices that follow the rules for all problems.
    pub fn by_rule(precision: Precision) -> Self {
        Self { precision, measured: HashMap::new() }
    }

    /// Returns the precision of programs that use these choices.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Sets the choice for a problem, one of its [`candidates`](super::candidates) for the limits that
    /// shaders are generated for. A program that was already lowered needs the value that it was lowered
    /// with, so change a copy.
    pub fn insert(&mut self, problem: Problem, choice: Choice) {
        self.measured.insert(problem, choice);
    }

    /// Returns `true` if a problem has a measured choice.
    pub fn is_measured(&self, problem: &Problem) -> bool {
        self.measured.contains_key(problem)
    }

    /// Returns the choice for a product on a device with these limits.
    pub fn product(&self, problem: &DotProblem, limits: &Limits) -> ProductChoice {
        let choice = match self.measured.get(&Problem::Product(problem.clone())) {
            Some(Choice::Product(choice)) => *choice,
            _ => schedule::choose(problem, limits.operands(self.precision), limits),
        };
        choice.without_empty_parts(problem.k)
    }

    /// Returns the choice for a kernel of attention on a device with these limits.
    pub fn attention(
        &self,
        kernel: attention::Kernel,
        problem: &attention::Problem,
        limits: &Limits,
    ) -> attention::Choice {
        match self.measured.get(&Problem::Attention(kernel, *problem)) {
            Some(Choice::Attention(choice)) => *choice,
            _ => attention::choose(kernel, problem, limits.attention_operands(self.precision), limits),
        }
    }
}
