//! Fused expressions without reductions, with one invocation per position or per four adjacent positions.

use super::super::ir::Kernel;
use super::Views;
use super::body::{Nodes, Operands, Position, stores_of};
use super::each::each;
use crate::narrow::narrow;
use gradloom_core::kernel::{Body, Level, Store};

/// Returns the kernel of a body without reductions.
pub(super) fn map(views: &Views<'_>, body: &Body, label: &str) -> Vec<Kernel> {
    if is_in_fours(views, body) {
        return in_fours(views, body, label);
    }
    each(label, views, body.rows * body.columns, |k, number| {
        let columns = narrow(body.columns);
        let (row, column) = (number / columns, number % columns);
        let position = Position { row, column, number: Some(number), owned: None };
        let mut nodes = Nodes::new(k, body, Operands::Views(views));
        Level::ALL.into_iter().for_each(|level| nodes.check(level, position));
        // All results are computed before the first is stored, because a result may alias an operand.
        for level in Level::ALL {
            for (node, _) in stores_of(body, level) {
                nodes.compute(node, position);
            }
        }
        for level in [Level::Element, Level::Row, Level::Uniform] {
            let stores = stores_of(body, level);
            if stores.is_empty() {
                continue;
            }
            let first = match level {
                Level::Element => None,
                Level::Row => Some(column.equals(k.u32(0))),
                Level::Uniform => Some(number.equals(k.u32(0))),
            };
            k.guard([first], || {
                for (node, write) in stores {
                    nodes.store(node, write, level, position);
                }
            });
        }
    })
}

/// Returns `true` if an invocation should compute four adjacent positions: the number of columns is a
/// multiple of four, some operand or result can be accessed in vectors, and all results are elementwise.
fn is_in_fours(views: &Views<'_>, body: &Body) -> bool {
    let only_elements =
        body.stores.iter().all(|store| matches!(store, Store::Value { level: Level::Element, .. }));
    body.columns.is_multiple_of(4)
        && only_elements
        && views.reads.iter().chain(&views.writes).any(|view| view.has_vectors)
}

/// Returns the kernel of a body without reductions, with one invocation per four positions.
fn in_fours(views: &Views<'_>, body: &Body, label: &str) -> Vec<Kernel> {
    each(label, views, body.rows * body.columns / 4, |k, group| {
        let columns = narrow(body.columns);
        let number = group * 4;
        let first =
            Position { row: number / columns, column: number % columns, number: Some(number), owned: None };
        let mut nodes = Nodes::new(k, body, Operands::Views(views));
        let stores = stores_of(body, Level::Element);
        let mut last = first;
        for i in 0..4 {
            nodes.turn_to_four(i, first);
            let i = narrow(i);
            last = Position { column: first.column + i, number: Some(number + i), ..first };
            Level::ALL.into_iter().for_each(|level| nodes.check(level, last));
            for &(node, _) in &stores {
                nodes.compute(node, last);
            }
        }
        for (node, write) in stores {
            nodes.store_four(node, write, last);
        }
    })
}
