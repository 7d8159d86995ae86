//! Text format of choices for products.
//!
//! A line consists of `product`, the extent and the left and right strides of each batch axis, joined by `x`,
//! the extents `m n k`, and `offset free-stride contract-stride` of both operands. The kernel and the number
//! of parts of the sums follow after a `:`. The kernel is `portable` (tile `m n k`, thread `m n`, buffers in
//! workgroup memory: 0 for none, 3 for none with scalar loads, 10 and more for slices, 500 and more for
//! threads that divide the terms) or `cooperative` (tile `m n k`, subgroup `m n`, buffers).

use crate::product::{BatchAxis, DotProblem, MatrixView};
use gradloom_core::kernel::{CooperativeTile, Method, ProductChoice, Staging, Tile};

/// Number that encodes scalar loads without buffers.
const SCALARS: u32 = 3;
/// Offset that is added to the number of slices.
const SLICED: u32 = 10;
/// Offset that is added to the number of threads per four columns.
const LANES: u32 = 500;
/// Maximum value of each number of a choice.
const LARGEST: u32 = 1024;

/// Returns the line for a product and its choice.
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

/// Parses a product and its choice, without checking that the choice suits the product. Returns `None` if the
/// line does not have the format of [`to_line`].
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
    // Ensures that computing with a tile neither divides by zero nor overflows.
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
