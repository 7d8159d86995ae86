//! Checks of ids, order, closedness and types of the ops in reachable blocks.

use super::{Homes, MAX_BLOCK_DEPTH, VerifyError, check_extents, check_type, size};
use crate::collections::{IdMap, IdSet};
use crate::ir::{BlockId, Definition, Graph, Op, OpId, Type, ValueId, infer};

/// Checks all reachable blocks, each after the blocks that it runs, because the shape rule of an op depends
/// on the block that the op runs.
pub(super) fn check(graph: &Graph) -> Result<Homes, VerifyError> {
    let mut check = Structure { graph, homes: IdMap::new(), listed: IdSet::new() };
    let blocks = callees_first(graph)?;
    for &block in &blocks {
        check.block(block)?;
    }
    size::check(graph, &blocks)?;
    let entry = &graph.blocks[graph.entry];
    if !entry.params.is_empty() || !entry.results.is_empty() {
        return Err(VerifyError::new(
            "the entry block has parameters or results; a graph takes inputs and gives outputs instead",
        ));
    }
    Ok(check.homes)
}

/// Returns the reachable blocks in an order in which each follows the blocks that its ops run.
pub(super) fn callees_first(graph: &Graph) -> Result<Vec<BlockId>, VerifyError> {
    // Use an explicit stack instead of recursion, because the depth is not checked yet. An entry contains a
    // block and the number of its visited ops.
    let mut path: Vec<(BlockId, usize)> = vec![(graph.entry, 0)];
    let mut done = Vec::new();
    let mut seen = IdSet::from([graph.entry]);
    while let Some((block, next)) = path.last_mut() {
        let block = *block;
        let Some(&id) = graph.blocks[block].ops.get(*next) else {
            done.push(block);
            path.pop();
            continue;
        };
        *next += 1;
        let Some(op) = graph.ops.get(id) else {
            return Err(VerifyError::new(format!("block {block} lists {id}, which does not exist")));
        };
        let Some(callee) = op.kind.block() else { continue };
        let fail = |message: String| Err(VerifyError::in_op(graph, id, message));
        if graph.blocks.get(callee).is_none() {
            return fail(format!("{} runs block {callee}, which does not exist", op.kind.name()));
        }
        if path.iter().any(|(open, _)| *open == callee) {
            return fail(format!("{} runs the block that it is a part of", op.kind.name()));
        }
        if !seen.insert(callee) {
            continue;
        }
        if path.len() > MAX_BLOCK_DEPTH {
            return fail(format!("blocks nest more than {MAX_BLOCK_DEPTH} deep"));
        }
        path.push((callee, 0));
    }
    Ok(done)
}

struct Structure<'g> {
    graph: &'g Graph,
    homes: Homes,
    /// Ops seen so far. Each op must occur exactly once, in one block.
    listed: IdSet<OpId>,
}

impl Structure<'_> {
    fn block(&mut self, id: BlockId) -> Result<(), VerifyError> {
        let graph = self.graph;
        let block = &graph.blocks[id];
        for (i, &param) in block.params.iter().enumerate() {
            self.define(param, Definition::BlockParam(id, i), id).map_err(VerifyError::new)?;
        }
        for &op in &block.ops {
            self.op(op, id).map_err(|message| VerifyError::in_op(graph, op, message))?;
        }
        for &result in &block.results {
            self.check_use(result, id).map_err(|message| {
                VerifyError::new(format!("the results of block {}: {message}", graph.block_text(id)))
            })?;
        }
        Ok(())
    }

    fn op(&mut self, id: OpId, block: BlockId) -> Result<(), String> {
        let graph = self.graph;
        let op = &graph.ops[id];
        if !self.listed.insert(id) {
            return Err(format!("{id} is listed twice; an op stands in one block, once"));
        }
        if let Some(origin) = op.origin
            && graph.origins.get(origin).is_none()
        {
            return Err(format!("the origin {origin} does not exist"));
        }
        if op.kind.is_external_leaf() && block != graph.entry {
            return Err(format!(
                "{} stands in block {}; leaves stand in the entry block",
                op.kind.name(),
                graph.block_text(block)
            ));
        }
        for &operand in &op.operands {
            self.check_use(operand, block)?;
        }
        self.check_types(op)?;
        for (i, &result) in op.results.iter().enumerate() {
            self.define(result, Definition::Result(id, i), block)?;
        }
        Ok(())
    }

    /// Checks that the types of the results match the shape rule.
    fn check_types(&self, op: &Op) -> Result<(), String> {
        let graph = self.graph;
        check_extents(graph, &op.kind, &op.operands)?;
        let expected = infer(graph, &op.kind, &op.operands).map_err(|error| error.to_string())?;
        if let Some(missing) = op.results.iter().find(|&&v| graph.values.get(v).is_none()) {
            return Err(format!("the result {missing} does not exist"));
        }
        let declared: Vec<&Type> = op.results.iter().map(|&v| graph.ty(v)).collect();
        if declared != expected.iter().collect::<Vec<_>>() {
            let list = |types: &mut dyn Iterator<Item = String>| types.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{} gives ({}), but its results are ({})",
                op.kind.name(),
                list(&mut expected.iter().map(Type::to_string)),
                list(&mut declared.iter().map(|ty| ty.to_string())),
            ));
        }
        Ok(())
    }

    fn define(&mut self, value: ValueId, definition: Definition, home: BlockId) -> Result<(), String> {
        let Some(entry) = self.graph.values.get(value) else {
            return Err(format!(
                "block {} defines {value}, which does not exist",
                self.graph.block_text(home)
            ));
        };
        if entry.definition != definition {
            return Err(format!(
                "{} says that it is {}, but it stands as {}",
                self.graph.value_text(value),
                describe(entry.definition),
                describe(definition)
            ));
        }
        check_type(&entry.ty)?;
        self.homes.insert(value, home);
        Ok(())
    }

    fn check_use(&self, value: ValueId, block: BlockId) -> Result<(), String> {
        let graph = self.graph;
        if graph.values.get(value).is_none() {
            return Err(format!("uses {}, which does not exist", graph.value_text(value)));
        }
        if let Some(&home) = self.homes.get(&value) {
            if home == block {
                return Ok(());
            }
            return Err(format!(
                "uses {} of block {}; blocks use no value from outside",
                graph.value_text(value),
                graph.block_text(home)
            ));
        }
        Err(format!(
            "uses {}, which no op before it in block {} defines",
            graph.value_text(value),
            graph.block_text(block)
        ))
    }
}

fn describe(definition: Definition) -> String {
    match definition {
        Definition::Result(op, i) => format!("result {i} of {op}"),
        Definition::BlockParam(block, i) => format!("parameter {i} of block {block}"),
    }
}
