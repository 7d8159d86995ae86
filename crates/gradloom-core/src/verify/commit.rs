//! Checks of outputs, updates and guards.

use super::{Homes, VerifyError};
use crate::collections::{IdMap, SortedSet};
use crate::ir::{DType, Definition, Graph, OpId, OpKind, Type, Update, ValueId};

pub(super) fn check(graph: &Graph, homes: &Homes) -> Result<(), VerifyError> {
    let commit = Commit { graph, homes };
    let mut names = SortedSet::new();
    for output in &graph.outputs {
        if !names.insert(output.name.as_str()) {
            return Err(VerifyError::new(format!("two outputs are named \"{}\"", output.name)));
        }
        commit.ty(output.value, || format!("output \"{}\"", output.name))?;
    }
    for guard in &graph.guards {
        let ty = commit.ty(guard.value, || format!("guard \"{}\"", guard.name))?;
        if ty.dtype != DType::F32 {
            return Err(commit.error(guard.value, format!("guard \"{}\" is {ty}, not f32", guard.name)));
        }
    }
    // For each target, true if its updates seen so far are region updates.
    let mut regional: IdMap<ValueId, bool> = IdMap::new();
    for update in &graph.updates {
        let name = commit.update(update)?;
        let is_regional = update.region.is_some();
        match regional.insert(update.target, is_regional) {
            Some(true) if is_regional => {}
            Some(earlier) if earlier != is_regional => {
                let message = format!("\"{name}\" is updated as a whole and also by regions");
                return Err(commit.error(update.target, message));
            }
            Some(_) => {
                return Err(commit.error(update.target, format!("\"{name}\" is updated as a whole twice")));
            }
            None => {}
        }
    }
    Ok(())
}

struct Commit<'g> {
    graph: &'g Graph,
    homes: &'g Homes,
}

impl<'g> Commit<'g> {
    fn error(&self, value: ValueId, message: String) -> VerifyError {
        match self.defining_op(value) {
            Some(op) => VerifyError::in_op(self.graph, op, message),
            None => VerifyError::new(message),
        }
    }

    fn defining_op(&self, value: ValueId) -> Option<OpId> {
        match self.graph.values.get(value)?.definition {
            Definition::Result(op, _) => Some(op),
            Definition::BlockParam(..) => None,
        }
    }

    /// Returns the type of a value, which must be defined in the entry block.
    fn ty(&self, value: ValueId, what: impl Fn() -> String) -> Result<&'g Type, VerifyError> {
        match self.homes.get(&value) {
            Some(home) if *home == self.graph.entry => Ok(self.graph.ty(value)),
            Some(home) => {
                let (value_text, home) = (self.graph.value_text(value), self.graph.block_text(*home));
                let message =
                    format!("{} reads {value_text} of block {home}, not of the entry block", what());
                Err(self.error(value, message))
            }
            None => {
                let value_text = self.graph.value_text(value);
                Err(self.error(value, format!("{} reads {value_text}, which no op defines", what())))
            }
        }
    }

    /// Checks an update independently of the others. Returns the name of its target.
    fn update(&self, update: &Update) -> Result<&'g str, VerifyError> {
        let target = self.ty(update.target, || "an update's target".to_string())?;
        let leaf = self.graph.defining_op(update.target).map(|op| &op.kind);
        let (Some(OpKind::Param { name, .. }) | Some(OpKind::State { name, .. })) = leaf else {
            return Err(self.error(update.target, "an update's target is no parameter or state".to_string()));
        };
        let what = || format!("the update of \"{name}\"");
        let value = self.ty(update.value, what)?;
        let Some(starts) = &update.region else {
            if value != target {
                return Err(
                    self.error(update.value, format!("{} is {value}, but the target is {target}", what()))
                );
            }
            return Ok(name);
        };
        if starts.len() != target.shape.rank() {
            let message = format!("{} has {} starts for the axes of {target}", what(), starts.len());
            return Err(self.error(update.target, message));
        }
        for &start in starts {
            let ty = self.ty(start, what)?;
            if *ty != Type::scalar(DType::I32) {
                return Err(self.error(start, format!("a start of {} is {ty}, not an i32 scalar", what())));
            }
        }
        let fits = value.dtype == target.dtype
            && value.shape.rank() == target.shape.rank()
            && value.shape.iter().zip(target.shape.iter()).all(|(part, whole)| part <= whole);
        if !fits {
            let message = format!("{} writes a region of {value} into {target}", what());
            return Err(self.error(update.value, message));
        }
        Ok(name)
    }
}
