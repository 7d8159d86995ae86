//! States and their updates in the open trace.
//!
//! In: a [`State`] and tensors of the trace. Out: leaves and update edges of the graph. Invariant: a state
//! has one leaf, and either one update of the whole state or updates of windows that fit the state; anything
//! else is an error at the caller's location.

use super::Tensor;
use super::scope::Scope;
use super::table::is_optimizers;
use crate::error::{Error, ErrorKind};
use crate::ir::{Graph, Number, OpKind, Origin, Type, Update, ValueId, cast_help};
use crate::nn::State;

impl Scope {
    /// Returns the leaf of a state as seen from the block under construction, creating the leaf at the first
    /// use. `token` is the user's method, for error messages.
    pub(crate) fn state(&mut self, state: &State, caller: Origin, token: &str) -> ValueId {
        let value = self.state_leaf(state, caller, token);
        self.reach(value, self.frames.len())
    }

    fn state_leaf(&mut self, state: &State, caller: Origin, token: &str) -> ValueId {
        if let Some(&value) = self.used_states.get(&state.id()) {
            return value;
        }
        let ty = state.ty().clone();
        let name = match (self.table.state(state.id()), state.name()) {
            (Some(known), _) => known.name.clone(),
            (None, Some(name)) => name.to_string(),
            (None, None) => {
                let message = format!("a state of shape {} is not part of the model", ty.shape);
                let help = "make it a field of the model, so that `#[derive(Module)]` finds it, or name it \
                            with `.named(..)`";
                self.fail_state(message, help.to_string(), caller, token);
                return self.placeholder(ty);
            }
        };
        if name.is_empty() {
            let message = format!("a state of {ty} has no name");
            let help = "give `.named(..)` a name, or make it a field of the model";
            self.fail_state(message, help.to_string(), caller, token);
            return self.placeholder(ty);
        }
        let is_models = self.table.state(state.id()).is_some();
        if !is_models && is_optimizers(&name) {
            let message = format!("the state `{name}` is called like a state of the optimizer");
            self.fail_state(message, "give it another name".to_string(), caller, token);
            return self.placeholder(ty);
        }
        if !is_models && (self.table.has_name(&name) || self.is_stored(&name)) {
            let message = format!("another parameter or state of this program is called `{name}`");
            let help = "give each its own name; to use one state in two places, share it with `.tie()`";
            self.fail_state(message, help.to_string(), caller, token);
            return self.placeholder(ty);
        }
        let init = state.init().unwrap_or_else(|| {
            let message = format!("the state `{name}` does not start as a number of its dtype, {}", ty.dtype);
            self.fail_state(
                message,
                "bools are 0 and 1, integers have no fraction".to_string(),
                caller,
                token,
            );
            Number::of(ty.dtype, 0.0)
        });
        let value = self.add_leaf(OpKind::State { name, ty, init, whole: Vec::new() });
        self.used_states.insert(state.id(), value);
        value
    }

    /// Returns `true` if the graph has a parameter or state of this name.
    fn is_stored(&self, name: &str) -> bool {
        self.graph.entry_ops().any(|(_, op)| match &op.kind {
            OpKind::Param { name: known, .. } | OpKind::State { name: known, .. } => known == name,
            _ => false,
        })
    }

    /// Records that `value` replaces the whole state.
    pub(crate) fn set_state(&mut self, state: &State, value: Tensor, caller: Origin) {
        let found = self.graph.ty(value.value()).clone();
        let (token, wanted) = ("set", state.ty());
        if found != *wanted {
            let message = format!("the state is {wanted}, `set` gives it {found}");
            let help = match found.shape == wanted.shape {
                true => cast_help(wanted.dtype, found.dtype),
                false => {
                    "a state keeps its dtype and shape; a part of it is set with `update_at`".to_string()
                }
            };
            return self.fail_state(message, help, caller, token);
        }
        self.update_state(state, None, value, caller, token);
    }

    /// Records that `value` replaces the window of the state at `starts`.
    pub(crate) fn update_state_at(
        &mut self,
        state: &State,
        starts: &[Tensor],
        value: Tensor,
        caller: Origin,
    ) {
        let found = self.graph.ty(value.value()).clone();
        let (token, whole) = ("update_at", state.ty());
        let fits = found.dtype == whole.dtype
            && found.shape.rank() == whole.shape.rank()
            && found.shape.iter().zip(whole.shape.iter()).all(|(part, whole)| part <= whole);
        if !fits {
            let message = format!("the state is {whole}, `update_at` gives it a window of {found}");
            let help = "a window has the state's dtype and rank, and no extent larger than the state's";
            return self.fail_state(message, help.to_string(), caller, token);
        }
        let wrong = starts.iter().map(|start| self.graph.ty(start.value())).find(|ty| !is_start(ty));
        if let Some(wrong) = wrong {
            let message = format!("a start of `update_at` is {wrong}");
            return self.fail_state(message, "starts are i32 scalars, i32[]".to_string(), caller, token);
        }
        if starts.len() != whole.shape.rank() {
            let message = format!("`update_at` of {whole} with {} starts", starts.len());
            return self.fail_state(message, "give one start for each axis".to_string(), caller, token);
        }
        self.update_state(state, Some(starts), value, caller, token);
    }

    fn update_state(
        &mut self,
        state: &State,
        starts: Option<&[Tensor]>,
        value: Tensor,
        caller: Origin,
        token: &str,
    ) {
        if !self.frames.is_empty() {
            let message = format!("a state is updated (`{token}`) inside `checkpoint` or `scan`");
            let help = "return the value from the closure, and update the state outside of it";
            return self.fail_state(message, help.to_string(), caller, token);
        }
        let target = self.state_leaf(state, caller.clone(), token);
        // After an error, `target` is a placeholder and not a leaf, so there is nothing to update.
        let Some(name) = self.graph.defining_op(target).and_then(|op| Graph::leaf_name(&op.kind)) else {
            return;
        };
        let earlier = self.graph.updates.iter().find(|update| update.target == target);
        let clash = match (earlier.map(|update| update.region.is_some()), starts.is_some()) {
            (None, _) | (Some(true), true) => None,
            (Some(false), false) => Some(format!("the state `{name}` is set twice")),
            (Some(_), _) => Some(format!("the state `{name}` is set as a whole and also by windows")),
        };
        if let Some(message) = clash {
            let help =
                "updates take effect together at the end of the step: set the state once, to its last value";
            return self.fail_state(message, help.to_string(), caller, token);
        }
        let region = starts.map(|starts| starts.iter().map(|&start| self.checked(start)).collect());
        let value = self.checked(value);
        self.graph.updates.push(Update { target, region, value, must_alias: state.is_in_place() });
    }

    fn fail_state(&mut self, message: String, help: String, caller: Origin, token: &str) {
        let origin = self.origin_of(caller);
        self.fail(Error::new(ErrorKind::Trace, message).at(origin, token).help(help));
    }
}

fn is_start(ty: &Type) -> bool {
    *ty == Type::scalar(crate::ir::DType::I32)
}
