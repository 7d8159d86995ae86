//! The nodes of a body as statements.
//!
//! In: a body, and where the invocation stands. Out: `let` statements for the nodes that are asked for and
//! all that they use. A node is computed once in each scope that knows it.

use super::source::{Source, index_at, index_at_row};
use gradloom_core::kernel::{Body, Level, NodeId, NodeKind, Store};

/// What is known of a body's nodes at one place of a shader.
pub(crate) struct Nodes<'b> {
    body: &'b Body,
    /// Names of the nodes.
    names: Vec<Option<String>>,
    /// Expression of the matrix product's element, for an epilogue.
    accumulator: Option<String>,
}

/// Where an invocation stands.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    /// Number of the row.
    pub(crate) row: &'p str,
    /// Number of the column.
    pub(crate) column: &'p str,
    /// Number of the position, row by row, if there is a name for it.
    pub(crate) position: Option<&'p str>,
    /// Appended to the names of nodes of level `Element`: an invocation may have several positions.
    pub(crate) suffix: &'p str,
    /// When the invocation answers for this position; always, if empty. Others stand at a position that is
    /// not theirs, where they may read what its owner has already overwritten: what they compute must have no
    /// effect.
    pub(crate) exists: &'p str,
}

impl<'b> Nodes<'b> {
    pub(crate) fn new(body: &'b Body) -> Self {
        Self { body, names: vec![None; body.nodes.len()], accumulator: None }
    }

    fn known(&self, id: NodeId) -> &Option<String> {
        &self.names[id.index()]
    }

    /// The expression of the product's element from here on.
    pub(crate) fn set_accumulator(&mut self, expression: &str) {
        self.accumulator = Some(expression.to_string());
    }

    /// Gives a node a name that exists already.
    pub(crate) fn name(&mut self, id: NodeId, expression: String) {
        self.names[id.index()] = Some(expression);
    }

    /// Computes a node; gives its expression.
    ///
    /// # Panics
    /// When the node needs a reduction that has no name yet.
    pub(crate) fn compute(&mut self, source: &mut Source<'_>, id: NodeId, place: Place<'_>) -> String {
        if let Some(name) = self.known(id) {
            return name.clone();
        }
        let node = self.body.node(id);
        let operands: Vec<String> =
            node.kind.operands().iter().map(|&operand| self.compute(source, operand, place)).collect();
        let operand = |i: usize| operands[i].as_str();
        let dtype_of = |i: usize| self.body.node(node.kind.operands()[i]).dtype;
        let expression = match &node.kind {
            NodeKind::Constant(number) => {
                let constant = source.constant(*number, node.dtype);
                self.name(id, constant.clone());
                return constant;
            }
            NodeKind::Repeat(_) => {
                self.name(id, operands[0].clone());
                return operands[0].clone();
            }
            NodeKind::Load(read) => {
                let operand = &source.operands.reads[*read];
                let index = index_at_level(self.body, &operand.layout, node.level, place);
                source.load(operand, &index)
            }
            NodeKind::Column => format!("i32({})", place.column),
            NodeKind::Accumulator => self.accumulator.clone().expect("the body follows a product"),
            NodeKind::Unary(op, _) => source.unary(*op, node.dtype, operand(0)),
            NodeKind::Binary(op, _) => source.binary(*op, node.dtype, operand(0), operand(1)),
            NodeKind::Compare(op, _) => source.compare(*op, dtype_of(0), operand(0), operand(1)),
            NodeKind::Select(_) => format!("select({}, {}, {})", operand(2), operand(1), operand(0)),
            NodeKind::Cast(_) => source.cast(dtype_of(0), node.dtype, operand(0)),
            NodeKind::CheckIndex { extent, .. } => {
                let position = match node.level {
                    Level::Uniform => "0u".to_string(),
                    Level::Row => place.row.to_string(),
                    Level::Element => position(self.body, place),
                };
                if !place.exists.is_empty() {
                    source.line(format_args!("if ({}) {{", place.exists));
                }
                let index = source.check_index(operand(0), *extent, &position);
                if !place.exists.is_empty() {
                    source.line("}");
                }
                index
            }
            NodeKind::Reduce(..) => {
                panic!("gradloom: a reduction was used before it was computed; please report this")
            }
        };
        let suffix = if node.level == Level::Element { place.suffix } else { "" };
        let name = format!("{id}{suffix}");
        source.line(format_args!("let {name} = {expression};"));
        self.name(id, name.clone());
        name
    }

    /// Computes and stores the results of level `Element` at a position: all of them are computed before the
    /// first is stored, as a result may lie where an operand does.
    pub(crate) fn store_elements(&mut self, source: &mut Source<'_>, place: Place<'_>) {
        let stores = stores_of(self.body, Level::Element);
        for &(node, _) in &stores {
            self.compute(source, node, place);
        }
        for (node, write) in stores {
            let value = self.compute(source, node, place);
            self.store(source, write, Level::Element, place, &value);
        }
    }

    /// Adds the statements of a store at a position; `value` is the node's expression.
    pub(crate) fn store(
        &self,
        source: &mut Source<'_>,
        write: usize,
        level: Level,
        place: Place<'_>,
        value: &str,
    ) {
        let operand = &source.operands.writes[write];
        let index = index_at_level(self.body, &operand.layout, level, place);
        source.store(operand, &index, value);
    }
}

/// Index checks of a level: nothing else may need them.
pub(crate) fn checks_of(body: &Body, level: Level) -> Vec<NodeId> {
    let is_check = |id: &NodeId| {
        let node = body.node(*id);
        node.level == level && matches!(node.kind, NodeKind::CheckIndex { .. })
    };
    body.ids().filter(is_check).collect()
}

/// The results of a body of a level, as (node, write).
pub(crate) fn stores_of(body: &Body, wanted: Level) -> Vec<(NodeId, usize)> {
    body.stores
        .iter()
        .filter_map(|store| match *store {
            Store::Whole { node, level, write } if level == wanted => Some((node, write)),
            _ => None,
        })
        .collect()
}

fn index_at_level(
    body: &Body,
    layout: &gradloom_core::kernel::Layout,
    level: Level,
    place: Place<'_>,
) -> String {
    match (level, place.position) {
        (Level::Uniform, _) => index_at(layout, "0u"),
        (Level::Row, _) => index_at(layout, place.row),
        (Level::Element, Some(position)) if layout.collapsed().len() <= 1 => index_at(layout, position),
        (Level::Element, _) => index_at_row(layout, body.rows, body.columns, place.row, place.column),
    }
}

fn position(body: &Body, place: Place<'_>) -> String {
    match place.position {
        Some(position) => position.to_string(),
        None => format!("({} * {}u + {})", place.row, body.columns, place.column),
    }
}
