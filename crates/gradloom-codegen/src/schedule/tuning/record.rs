//! Choices as text, to be kept between runs: a line for each problem, which begins with its kind.

use super::{Choice, Problem};
use crate::schedule::attention;
use crate::schedule::product as schedule;

/// Returns the line for a problem.
///
/// # Panics
/// If the choice is one for another kind of kernel.
pub fn to_line(problem: &Problem, choice: &Choice) -> String {
    match (problem, choice) {
        (Problem::Product(problem), Choice::Product(choice)) => schedule::to_line(problem, choice),
        (Problem::Attention(kernel, problem), Choice::Attention(choice)) => {
            attention::to_line(*kernel, problem, choice)
        }
        _ => panic!("{choice:?} is no choice for {problem}"),
    }
}

/// Returns a problem and its choice, unchecked; `None` if the line is not one that [`to_line`] writes.
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
