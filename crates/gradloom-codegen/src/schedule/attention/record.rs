//! Text format of choices for attention.
//!
//! A line consists of `attention`, the kernel (`forward`, `queries`, `keys`), the flags of the op (`causal`,
//! `query_offset`, `key_length`, `block_table`), `window` with its number of positions if there is one, the
//! scale of the scores, and the extents
//! `batch heads key-heads queries keys depth value-depth`. The choice follows after a `:`, as `block` with
//! the tile (rows and columns of a thread, threads along rows and columns), `matrices` with the size of a
//! subgroup and the columns of a phase, `lanes` with the invocations of a workgroup, or `own` with the rows
//! of an invocation.

use super::{Choice, Kernel, Lanes, Matrices, Problem, Tile};
use gradloom_core::ir::AttentionSpec;

/// Maximum value of a number in a line, which prevents overflows in computations.
const LARGEST: usize = u32::MAX as usize;

fn name(kernel: Kernel) -> &'static str {
    match kernel {
        Kernel::Forward => "forward",
        Kernel::Queries => "queries",
        Kernel::Keys => "keys",
    }
}

/// Returns the flags of an op with their names.
fn flags(spec: &mut AttentionSpec) -> [(&'static str, &mut bool); 4] {
    [
        ("causal", &mut spec.causal),
        ("query_offset", &mut spec.query_offset),
        ("key_length", &mut spec.key_length),
        ("block_table", &mut spec.block_table),
    ]
}

/// Returns the line for a kernel and its choice.
pub fn to_line(kernel: Kernel, problem: &Problem, choice: &Choice) -> String {
    let Problem { mut spec, batch, heads, key_heads, queries, keys, depth, value_depth } = *problem;
    let mut words = vec!["attention".to_string(), name(kernel).into()];
    let scale = spec.scale;
    words.extend(flags(&mut spec).into_iter().filter(|(_, flag)| **flag).map(|(name, _)| name.into()));
    if let Some(window) = spec.window {
        words.extend(["window".into(), window.to_string()]);
    }
    words.push(scale.to_string());
    words.extend([batch, heads, key_heads, queries, keys, depth, value_depth].map(|n| n.to_string()));
    words.push(":".into());
    match *choice {
        Choice::Block(Tile { rows_each, columns_each, row_threads, column_threads }) => {
            words.push("block".into());
            words.extend([rows_each, columns_each, row_threads, column_threads].map(|n| n.to_string()));
        }
        Choice::Matrices(Matrices { subgroup, columns }) => {
            words.extend(["matrices".into(), subgroup.to_string(), columns.to_string()]);
        }
        Choice::Warpgroups(_) => unreachable!("they replace matrices when a launch is scheduled"),
        Choice::Lanes(Lanes { threads, .. }) => words.extend(["lanes".into(), threads.to_string()]),
        Choice::Own { rows } => words.extend(["own".into(), rows.to_string()]),
    }
    words.join(" ")
}

/// Parses a kernel and its choice, without checking that the choice suits the kernel. Returns `None` if the
/// line does not have the format of [`to_line`].
pub fn from_line(line: &str) -> Option<(Kernel, Problem, Choice)> {
    let (problem, choice) = line.strip_prefix("attention ")?.split_once(" : ")?;
    let mut words = problem.split(' ').peekable();
    let kernel = words.next()?;
    let kernel = Kernel::ALL.into_iter().find(|&other| name(other) == kernel)?;
    let mut spec = AttentionSpec::default();
    for (name, flag) in flags(&mut spec) {
        *flag = words.next_if_eq(&name).is_some();
    }
    if words.next_if_eq(&"window").is_some() {
        let window = words.next()?.parse().ok();
        spec.window = Some(window.filter(|window| (1..=AttentionSpec::MAX_WINDOW).contains(window))?);
    }
    spec.scale = words.next()?.parse().ok().filter(|scale: &f64| scale.is_finite())?;
    let [batch, heads, key_heads, queries, keys, depth, value_depth] = numbers(words)?;
    let problem = Problem { spec, batch, heads, key_heads, queries, keys, depth, value_depth };
    let mut words = choice.split(' ');
    let choice = match words.next()? {
        "block" => {
            let [rows_each, columns_each, row_threads, column_threads] = numbers(words)?;
            Choice::Block(Tile { rows_each, columns_each, row_threads, column_threads })
        }
        "matrices" => {
            let [subgroup, columns] = numbers(words)?;
            Choice::Matrices(Matrices { subgroup, columns })
        }
        "lanes" => {
            let [threads] = numbers(words)?;
            Choice::Lanes(Lanes { threads, each: Lanes::FOUR })
        }
        "own" => {
            let [rows] = numbers(words)?;
            Choice::Own { rows }
        }
        _ => return None,
    };
    Some((kernel, problem, choice))
}

/// Parses exactly `N` numbers.
fn numbers<'w, const N: usize>(words: impl Iterator<Item = &'w str>) -> Option<[usize; N]> {
    let numbers = words.map(|word| word.parse().ok().filter(|&number| number <= LARGEST));
    numbers.collect::<Option<Vec<usize>>>()?.try_into().ok()
}
