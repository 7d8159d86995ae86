//! Fused expressions without reductions: one invocation for each position.

use super::super::ir::Kernel;
use super::Views;
use super::body::{Nodes, Operands, Position, stores_of};
use super::each::each;
use crate::narrow::narrow;
use gradloom_core::kernel::{Body, Level};

/// The kernel of a body that reduces nothing.
pub(super) fn map(views: &Views<'_>, body: &Body, label: &str) -> Vec<Kernel> {
    each(label, views, body.rows * body.columns, |k, number| {
        let columns = narrow(body.columns);
        let (row, column) = (number / columns, number % columns);
        let position = Position { row, column, number: Some(number), owned: None };
        let mut nodes = Nodes::new(k, body, Operands::Views(views));
        Level::ALL.into_iter().for_each(|level| nodes.check(level, position));
        // All that is stored is computed before the first store: a result may lie where an operand does.
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
