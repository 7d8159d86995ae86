//! Matrix products, the plain way: one invocation for each element.

use super::Dispatch;
use super::body::{Nodes, Place, checks_of, stores_of};
use super::source::{Source, WORKGROUP, index_at};
use crate::cpu::DotProblem;
use gradloom_core::ir::DotAxes;
use gradloom_core::kernel::{Body, Level};

/// The shader of a product and what follows from it.
///
/// # Panics
/// When an operand must be copied first.
pub(crate) fn product(mut source: Source<'_>, axes: &DotAxes, epilogue: Option<&Body>, label: &str) -> Vec<Dispatch> {
    let (lhs, rhs) = (source.operands.reads[0].clone(), source.operands.reads[1].clone());
    let problem = DotProblem::new(axes, &lhs.layout, &rhs.layout).expect("operands were made to fit");
    let DotProblem { m, n, k, .. } = problem;
    let elements = problem.batch_count() * m * n;
    if elements == 0 {
        return Vec::new();
    }
    let gate = if source.gated { "committed && " } else { "" };
    source.line(format!("let position = group * {WORKGROUP}u + local;"));
    source.line(format!("if ({gate}position < {elements}u) {{"));
    source.line(format!("let row = position / {n}u;"));
    source.line(format!("let column = position % {n}u;"));
    source.line(format!("let i = row % {m}u;"));
    let (mut a, mut b) = (format!("{}u", problem.lhs.offset), format!("{}u", problem.rhs.offset));
    let mut inner = m;
    for axis in problem.batch.iter().rev() {
        let index = format!("(row / {inner}u) % {}u", axis.extent);
        a.push_str(&format!(" + ({index}) * {}u", axis.lhs_stride));
        b.push_str(&format!(" + ({index}) * {}u", axis.rhs_stride));
        inner *= axis.extent;
    }
    source.line(format!("let a = {a} + i * {}u;", problem.lhs.free_stride));
    source.line(format!("let b = {b} + column * {}u;", problem.rhs.free_stride));
    source.line("var sum = 0.0;");
    source.line(format!("for (var k = 0u; k < {k}u; k++) {{"));
    let x = source.load(&lhs, &format!("a + k * {}u", problem.lhs.contract_stride));
    let y = source.load(&rhs, &format!("b + k * {}u", problem.rhs.contract_stride));
    source.line(format!("sum += {x} * {y};"));
    source.line("}");
    match epilogue {
        None => {
            let write = source.operands.writes[0].clone();
            source.store(&write, &index_at(&write.layout, "position"), "sum");
        }
        Some(body) => epilogue_at(&mut source, body),
    }
    source.line("}");
    vec![source.finish(label, WORKGROUP, elements.div_ceil(WORKGROUP as usize))]
}

/// What follows from the product's element `sum` at `row`, `column`.
fn epilogue_at(source: &mut Source<'_>, body: &Body) {
    let place = Place { row: "row", column: "column", position: None, suffix: "" };
    let mut nodes = Nodes::new(body);
    nodes.set_accumulator("sum");
    for id in Level::ALL.into_iter().flat_map(|level| checks_of(body, level)) {
        nodes.compute(source, id, place);
    }
    let stores = stores_of(body, Level::Element);
    for &(node, _) in &stores {
        nodes.compute(source, node, place);
    }
    for (node, write) in stores {
        let value = nodes.compute(source, node, place);
        nodes.store(source, write, Level::Element, place, &value);
    }
}
