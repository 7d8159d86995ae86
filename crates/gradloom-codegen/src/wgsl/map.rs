//! Bodies without reductions: one invocation for each position.

use super::Dispatch;
use super::body::{Nodes, Place, checks_of, stores_of};
use super::source::{Source, WORKGROUP};
use gradloom_core::kernel::{Body, Level};

/// The shader of a body that reduces nothing.
pub(crate) fn map(mut source: Source<'_>, body: &Body, label: &str) -> Dispatch {
    let positions = body.rows * body.columns;
    source.line(format_args!("let position = group * {WORKGROUP}u + local;"));
    let inside =
        if positions.is_multiple_of(WORKGROUP as usize) { "" } else { &format!("position < {positions}u") };
    let guard = match (inside, source.gated) {
        ("", false) => String::new(),
        (inside, false) => inside.to_string(),
        ("", true) => "committed".to_string(),
        (inside, true) => format!("committed && {inside}"),
    };
    if !guard.is_empty() {
        source.line(format_args!("if ({guard}) {{"));
    }
    source.line(format_args!("let row = position / {}u;", body.columns));
    source.line(format_args!("let column = position % {}u;", body.columns));
    let place = Place { row: "row", column: "column", position: Some("position"), suffix: "", exists: "" };
    let mut nodes = Nodes::new(body);
    for id in Level::ALL.into_iter().flat_map(|level| checks_of(body, level)) {
        nodes.compute(&mut source, id, place);
    }
    // All that is stored is computed before the first store: a result may lie where an operand does.
    for level in Level::ALL {
        for (node, _) in stores_of(body, level) {
            nodes.compute(&mut source, node, place);
        }
    }
    for level in [Level::Element, Level::Row, Level::Uniform] {
        let stores = stores_of(body, level);
        if stores.is_empty() {
            continue;
        }
        match level {
            Level::Element => {}
            Level::Row => source.line("if (column == 0u) {"),
            Level::Uniform => source.line("if (position == 0u) {"),
        }
        for (node, write) in stores {
            let value = nodes.compute(&mut source, node, place);
            nodes.store(&mut source, write, level, place, &value);
        }
        if level != Level::Element {
            source.line("}");
        }
    }
    if !guard.is_empty() {
        source.line("}");
    }
    source.finish(label, WORKGROUP, positions.div_ceil(WORKGROUP as usize))
}
