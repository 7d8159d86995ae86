//! The parameters and states of a model, and their names in the store.

use crate::collections::{SortedMap, SortedSet};
use crate::error::{Error, ErrorKind, Result};
use crate::nn::{Found, Module, Param, ParamId, State, StateId, Visitor};

/// The parameters and states of a model by identity, with their names in the store.
#[derive(Debug, Default)]
pub struct ParamTable {
    params: Vec<ParamUse>,
    by_id: SortedMap<ParamId, usize>,
    states: Vec<StateUse>,
    state_by_id: SortedMap<StateId, usize>,
    names: SortedSet<String>,
}

/// One parameter of a model.
#[derive(Debug)]
pub struct ParamUse {
    /// Path of the first field that holds the parameter, such as `layers.0.weight`.
    pub name: String,
    /// Paths of other fields that hold the same parameter (tied weights).
    pub aliases: Vec<String>,
    /// The parameter.
    pub param: Param,
}

/// One state of a model.
#[derive(Debug)]
pub struct StateUse {
    /// Name that was set by [`State::named`], or the path of the first field that holds the state.
    pub name: String,
    /// The state.
    pub state: State,
}

impl ParamTable {
    /// Collects the parameters and states of a model in the order of its fields.
    ///
    /// # Errors
    /// Returns an error if two parameters or states have the same name, as when a hand-written `visit` uses a
    /// field name twice, or if one has no name or a name that is reserved for the optimizer.
    pub fn of(model: &dyn Module) -> Result<Self> {
        let mut table = Self::default();
        let mut clash = None;
        let mut found = |path: &str, found: Found<'_>| {
            let name = match found {
                Found::Param(param) => table.add_param(path, param),
                Found::State(state) => table.add_state(path, state),
            };
            if let Some(name) = name.filter(|name| !table.names.insert(name.clone())) {
                clash.get_or_insert(name);
            }
        };
        model.visit(&mut Visitor::of_all(&mut found));
        let params = table.params.iter().map(|used| ("parameter", &used.name));
        let states = table.states.iter().map(|used| ("state", &used.name));
        for (what, name) in params.chain(states) {
            if name.is_empty() {
                return Err(Error::new(ErrorKind::Trace, format!("a {what} of the model has no name"))
                    .help("make it a field of a struct with `#[derive(Module)]`, whose name it takes"));
            }
            if is_optimizers(name) {
                return Err(Error::new(
                    ErrorKind::Trace,
                    format!("the {what} `{name}` is called like a state of the optimizer"),
                )
                .help("rename the model's field `optim`"));
            }
        }
        match clash {
            None => Ok(table),
            Some(name) => Err(Error::new(
                ErrorKind::Trace,
                format!("two different parameters or states of the model are both called `{name}`"),
            )
            .help("give every field that `Module::visit` reports its own name")),
        }
    }

    /// Adds a parameter, and returns its name if it is new.
    fn add_param(&mut self, path: &str, param: &Param) -> Option<String> {
        if let Some(&known) = self.by_id.get(&param.id()) {
            self.params[known].aliases.push(path.to_string());
            return None;
        }
        self.by_id.insert(param.id(), self.params.len());
        self.params.push(ParamUse { name: path.to_string(), aliases: Vec::new(), param: param.share() });
        Some(path.to_string())
    }

    /// Adds a state, and returns its name if it is new.
    fn add_state(&mut self, path: &str, state: &State) -> Option<String> {
        if self.state_by_id.contains_key(&state.id()) {
            return None;
        }
        let name = state.name().unwrap_or(path).to_string();
        self.state_by_id.insert(state.id(), self.states.len());
        self.states.push(StateUse { name: name.clone(), state: state.share() });
        Some(name)
    }

    /// Returns all parameters, each once.
    pub fn iter(&self) -> impl Iterator<Item = &ParamUse> + Clone {
        self.params.iter()
    }

    /// Returns all states, each once.
    pub fn states(&self) -> impl Iterator<Item = &StateUse> {
        self.states.iter()
    }

    pub(super) fn get(&self, id: ParamId) -> Option<&ParamUse> {
        self.by_id.get(&id).map(|&i| &self.params[i])
    }

    pub(super) fn state(&self, id: StateId) -> Option<&StateUse> {
        self.state_by_id.get(&id).map(|&i| &self.states[i])
    }

    /// Returns `true` if a parameter or state of the model has this name.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// Returns `true` if a name is reserved for states of the optimizer.
pub(super) fn is_optimizers(name: &str) -> bool {
    name.starts_with(crate::optim::STATE_PREFIX)
}
