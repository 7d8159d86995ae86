//! Text format of choices that are kept between runs: a line for each problem, which starts with its kind.

use super::{Choice, Problem};
use crate::schedule::attention;
use crate::schedule::product as schedule;

/// Returns the line for a problem and its choice.
///
/// # Panics
/// Panics if the choice is for another kind of kernel.
pub fn to_line(problem: &Problem, choice: &Choice) -> String {
    match (problem, choice) {
        (Problem::Product(problem), Choice::Product(choice)) => schedule::to_line(problem, choice),
        (Problem::Attention(kernel, problem), Choice::Attention(choice)) => {
            attention::to_line(*kernel, problem, choice)
        }
        _ => panic!("{choice:?} is no choice for {problem}"),
    }
}

/// Parses a problem and its choice, without checking that the choice suits the problem. Returns `None` if the
/// line does not have the format of [`to_line`].
pub fn from_line(line: &str) -> Option<(Problem, Choice)> {
    let product = || {
        let (problem, choice) = schedule::from_line(line)?;
        Some((Problem::Product(problem), Choice::Product(choice)))
    };
    let attention = || {
        let (kernel, problem, choice) = attention::from_line(line)?;
        Some((Problem::Attention(kernel, problem), Choice::Attention(choice)))
    };
    product().or_else(attention)
}
