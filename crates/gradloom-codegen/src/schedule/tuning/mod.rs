//! Tuning of kernels of which there are several variants.
//!
//! In: a lowered program and the limits of a device. Out: its [`Problem`]s, the choices to try for each
//! ([`candidates`]), and [`Choices`], the value that programs are compiled with. Invariant: each candidate
//! has valid shaders. A problem contains all that its shaders depend on except for bindings, the epilogues of
//! products, and the layout of attention's rows.

mod choices;

pub use super::precision::Precision;
pub use choices::Choices;

use super::{attention, product as schedule};
use crate::limits::Limits;
use crate::product::{DotProblem, problem_of};
use gradloom_core::kernel::{Access, Kernel, Lowered, ProductChoice};
use std::fmt;

/// A kernel of a program, with the properties that its choices depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// A matrix product.
    Product(DotProblem),
    /// One of attention's kernels.
    Attention(attention::Kernel, attention::Problem),
}

/// A variant of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Choice for a matrix product.
    Product(ProductChoice),
    /// Choice for a kernel of attention.
    Attention(attention::Choice),
}

impl Problem {
    /// Returns the approximate number of multiplications; 0 if a result has no elements.
    pub fn multiplications(&self) -> usize {
        let factors = match self {
            Problem::Product(product) => vec![product.batch_count(), product.m, product.n, product.k],
            Problem::Attention(_, problem) => {
                let attention::Problem { batch, heads, queries, keys, depth, value_depth, .. } = *problem;
                vec![batch, heads, queries, keys, 2 * depth.min(value_depth)]
            }
        };
        factors.into_iter().fold(1, usize::saturating_mul)
    }

    /// Returns the largest acceptable difference between the results of two choices, relative to the largest
    /// result.
    pub fn tolerance(&self, precision: Precision) -> f32 {
        match (self, precision) {
            // Leaves room for choices that round the operands to 11 bits.
            (_, Precision::F16) => 2e-2,
            // All other precisions compute in f32 on the devices on which choices are measured, which have
            // neither bf16 nor TF32.
            _ => 2e-4,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Product(DotProblem { m, n, k, .. }) => write!(f, "the product {m}x{n}x{k}"),
            Problem::Attention(kernel, problem) => {
                let attention::Problem { batch, heads, queries, keys, depth, .. } = problem;
                write!(
                    f,
                    "`{}` of {batch}x{heads} heads, {queries} queries, {keys} keys, depth {depth}",
                    kernel.label()
                )
            }
        }
    }
}

/// Returns the choices worth measuring for a kernel on a device with these limits, starting with that of the
/// rule.
pub fn candidates(problem: &Problem, precision: Precision, limits: &Limits) -> Vec<Choice> {
    match problem {
        Problem::Product(problem) => {
            schedule::candidates(problem, precision, limits).into_iter().map(Choice::Product).collect()
        }
        Problem::Attention(kernel, problem) => {
            let operands = limits.attention_operands(precision);
            attention::candidates(*kernel, problem, operands, limits)
                .into_iter()
                .map(Choice::Attention)
                .collect()
        }
    }
}

/// Returns the distinct problems of a lowered program that have multiplications and can be measured, in
/// order.
pub(crate) fn problems(lowered: &Lowered) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut add = |kernel: &Kernel, reads: &[Access]| {
        let product = problem_of(kernel, reads).map(Problem::Product);
        let attention = attention::problems_of(kernel, reads).into_iter();
        for problem in product.into_iter().chain(attention.map(|(kernel, p)| Problem::Attention(kernel, p))) {
            if problem.multiplications() > 0 && !found.contains(&problem) {
                found.push(problem);
            }
        }
    };
    for launch in &lowered.launches {
        match &launch.kernel {
            Kernel::Group(parts) => {
                parts.iter().for_each(|part| add(&part.kernel, &launch.reads[part.reads.clone()]));
            }
            kernel => add(kernel, &launch.reads),
        }
    }
    found
}
