//! A model that was written in another language: its parameters with their paths.

use gradloom_core::nn::{Module, Param, Visitor};

/// The parameters of a model. One that stands in two places is there twice.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) params: Vec<(String, Param)>,
}

impl Module for Model {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (name, param) in &self.params {
            visitor.field(name, param);
        }
    }
}

impl Model {
    /// The same parameters, under the same paths.
    pub(crate) fn tie(&self) -> Self {
        Self { params: self.params.iter().map(|(name, param)| (name.clone(), param.tie())).collect() }
    }
}
