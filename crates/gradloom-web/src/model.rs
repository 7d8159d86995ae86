//! A model written in another language: its parameters and states with their paths.

use gradloom_core::nn::{Module, Param, State, Visitor};

/// The parameters and states of a model. A parameter used in two places has two entries.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) params: Vec<(String, Param)>,
    pub(crate) states: Vec<(String, State)>,
}

impl Module for Model {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (name, param) in &self.params {
            visitor.field(name, param);
        }
        for (name, state) in &self.states {
            visitor.field(name, state);
        }
    }
}

impl Model {
    /// Returns a model that shares these parameters and states, under the same paths.
    pub(crate) fn tie(&self) -> Self {
        Self {
            params: self.params.iter().map(|(name, param)| (name.clone(), param.tie())).collect(),
            states: self.states.iter().map(|(name, state)| (name.clone(), state.tie())).collect(),
        }
    }
}
