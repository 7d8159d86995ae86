//! Choices for products as text.
//!
//! `product`, then for each batch axis `extent x lhs stride x rhs stride`, the extents `m n k`, of both
//! operands `offset free-stride contract-stride`; behind `:` the kernel, `portable` (tile `m n k`, thread
//! `m n`, buffers in workgroup memory: 0 for none, 3 for none and element by element, 10 and more for slices,
//! 500 and more for threads that share out terms)
//! or `cooperative` (tile `m n k`, subgroup `m n`, buffers), and the parts of the sums.

use crate::product::{BatchAxis, DotProblem, MatrixView};
use gradloom_core::kernel::{CooperativeTile, Method, ProductChoice, Staging, Tile};

/// Number that stands for no buffers, element by element.
const SCALARS: u32 = 3;
/// Number that the number of slices is added to.
const SLICED: u32 = 10;
/// Number that the number of threads for four columns is added to.
const LANES: u32 = 500;
/// Numbers of a choice are no larger than this.
const LARGEST: u32 = 1024;

/// Returns the line for a product.
pub fn to_line(problem: &DotProblem, choice: &ProductChoice) -> String {
    let DotProblem { batch, m, n, k, lhs, rhs } = problem;
    let mut line = "product".to_string();
    for BatchAxis { extent, lhs_stride, rhs_stride } in batch {
        line += &format!(" {extent}x{lhs_stride}x{rhs_stride}");
    }
    line += &format!(" {m} {n} {k}");
    for MatrixView { offset, free_stride, contract_stride } in [lhs, rhs] {
        line += &format!(" {offset} {free_stride} {contract_stride}");
    }
    let (name, numbers) = match choice.method {
        Method::Portable(Tile { m, n, k, thread_m, thread_n, staging }) => {
            let buffers = match staging {
                Staging::Registers => 0,
                Staging::Workgroup(buffers) => buffers,
                Staging::Scalars => SCALARS,
                Staging::Sliced(slices) => SLICED + slices,
                Staging::Lanes(slices) => LANES + slices,
            };
            ("portable", [m, n, k, thread_m, thread_n, buffers])
        }
        Method::Cooperative(CooperativeTile { m, n, k, subgroup_m, subgroup_n, buffers }) => {
            ("cooperative", [m, n, k, subgroup_m, subgroup_n, buffers])
        }
    };
    let numbers = numbers.map(|number| number.to_string()).join(" ");
    line + &format!(" : {name} {numbers} {}", choice.parts)
}

/// Returns a product and its choice, unchecked; `None` if the line is not one that [`to_line`] writes.
pub fn from_line(line: &str) -> Option<(DotProblem, ProductChoice)> {
    let (problem, choice) = line.strip_prefix("product ")?.split_once(" : ")?;
    let (mut batch, mut numbers) = (Vec::new(), Vec::new());
    for word in problem.split(' ') {
        match word.split('x').collect::<Vec<_>>()[..] {
            [number] => numbers.push(number.parse().ok()?),
            [extent, lhs, rhs] if numbers.is_empty() => batch.push(BatchAxis {
                extent: extent.parse().ok()?,
                lhs_stride: lhs.parse().ok()?,
                rhs_stride: rhs.parse().ok()?,
            }),
            _ => return None,
        }
    }
    let view = |[offset, free_stride, contract_stride]: [usize; 3]| MatrixView {
        offset,
        free_stride,
        contract_stride,
    };
    let [m, n, k, a, b, c, d, e, f] = numbers[..] else { return None };
    let problem = DotProblem { batch, m, n, k, lhs: view([a, b, c]), rhs: view([d, e, f]) };
    let (name, numbers) = choice.split_once(' ')?;
    let numbers: Option<Vec<u32>> = numbers.split(' ').map(|number| number.parse().ok()).collect();
    let [m, n, k, each_m, each_n, buffers, parts] = numbers?[..] else { return None };
    // So that looking at a tile neither divides by zero nor overflows.
    let sane = |number: &u32| (1..=LARGEST).contains(number);
    if ![m, n, k, each_m, each_n, parts].iter().all(sane) || buffers > LARGEST {
        return None;
    }
    let method = match name {
        "portable" => {
            let staging = match buffers {
                0 => Staging::Registers,
                SCALARS => Staging::Scalars,
                LANES.. => Staging::Lanes(buffers - LANES),
                SLICED.. => Staging::Sliced(buffers - SLICED),
                buffers => Staging::Workgroup(buffers),
            };
            Method::Portable(Tile { m, n, k, thread_m: each_m, thread_n: each_n, staging })
        }
        "cooperative" => {
            Method::Cooperative(CooperativeTile { m, n, k, subgroup_m: each_m, subgroup_n: each_n, buffers })
        }
        _ => return None,
    };
    Some((problem, ProductChoice { method, parts }))
}
