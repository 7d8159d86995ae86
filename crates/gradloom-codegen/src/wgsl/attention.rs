//! Standalone attention kernels, for measurements.
//!
//! In: a kernel, its extents, and a schedule choice. Out: its shader. The heads of a position are adjacent in
//! the operands, as in models. Queries are at the last positions of the keys, none of which are padding.

pub use crate::schedule::attention::{Choice, Kernel, Problem, Tile, candidates, choose, suits};

use super::alone::{Alone, Value, side_by_side};
use super::dispatch::Bound;
use super::operands::Element;
use super::print;
use crate::limits::Limits;
use crate::narrow::narrow;
use crate::schedule::attention::schedule_with;
use crate::simt::kernels;
use gradloom_core::ir::{DType, Shape};
use gradloom_core::kernel::Layout;

/// Returns the standalone shader of a kernel for a choice that suits it.
pub(super) fn alone(kernel: Kernel, problem: &Problem, choice: &Choice, limits: &Limits) -> Alone {
    let Problem { spec, batch, heads, key_heads, queries, keys, depth, value_depth } = *problem;
    let rows = |heads: usize, rows: usize, width: usize| {
        let by_position = Layout::contiguous(&Shape::from([batch, rows, heads, width]));
        float(by_position.permute(&[0, 2, 1, 3]))
    };
    let log_sum = float(Layout::contiguous(&Shape::from([batch, heads, queries])));
    let qkv = [rows(heads, queries, depth), rows(key_heads, keys, depth), rows(key_heads, keys, value_depth)];
    let output = rows(heads, queries, value_depth);
    let mut reads = qkv.to_vec();
    let mut words = Vec::new();
    for (there, word) in
        [(spec.query_offset, narrow(keys).wrapping_sub(narrow(queries))), (spec.key_length, narrow(keys))]
    {
        if there {
            words.push((reads.len(), vec![word]));
            let layout = Layout::contiguous(&Shape::from([]));
            reads.push(Value { element: Element::Plain(DType::I32), dtype: DType::I32, layout });
        }
    }
    let writes = match kernel {
        Kernel::Forward => vec![output, log_sum],
        Kernel::Queries | Kernel::Keys => {
            reads.extend([output.clone(), log_sum, output]);
            qkv.to_vec()
        }
    };
    let schedule = schedule_with(*problem, vec![(kernel, *choice)], DType::F16, limits);
    let first = reads.len();
    let results = match kernel {
        Kernel::Forward => vec![Bound::Operand(first), Bound::Operand(first + 1)],
        Kernel::Queries => vec![Bound::Operand(first), Bound::Workspace(0..schedule.workspace())],
        Kernel::Keys => vec![Bound::Operand(first + 1), Bound::Operand(first + 2)],
    };
    let operands = side_by_side(reads, writes);
    let kernels = kernels::attention(&operands.views(false), &schedule);
    let print = |kernel| print::print(kernel, &operands, limits, 0);
    let dispatches = kernels.iter().map(print).collect();
    Alone { operands, dispatches, words, results }
}

fn float(layout: Layout) -> Value {
    Value { element: Element::Plain(DType::F32), dtype: DType::F32, layout }
}
