//! Values for leaves: drawn at random, or left by an earlier step.

use crate::Random;
use gradloom_core::ir::{DType, Graph, OpKind, Type};
use gradloom_core::reference::{Evaluation, HostTensor};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Values of leaves, which are the same for each device and the reference.
#[derive(Clone, Debug)]
pub struct Leaves {
    seed: u64,
    given: HashMap<String, HostTensor>,
}

impl Leaves {
    /// Creates random values: floats that are exact in float32, and integers small enough to be indices.
    pub fn random(seed: u64) -> Self {
        Self { seed, given: HashMap::new() }
    }

    /// Sets the value of one leaf.
    pub fn with(mut self, name: &str, dtype: DType, shape: &[usize], values: &[f64]) -> Self {
        self.set(name, HostTensor::from_f64(Type::new(dtype, shape), values.to_vec()));
        self
    }

    fn set(&mut self, name: &str, tensor: HostTensor) {
        self.given.insert(name.to_string(), tensor);
    }

    /// Sets the leaves to the values that a step left in the store.
    pub fn advance(&mut self, step: &Evaluation) {
        for (name, tensor) in &step.next {
            self.set(name, tensor.clone());
        }
    }

    /// Returns the value of a leaf, with each float changed at random by up to `share`, relative to its
    /// magnitude.
    pub fn value_near(&self, kind: &OpKind, share: f64, seed: u64) -> Option<HostTensor> {
        let value = match kind {
            OpKind::State { ty, init, .. } => self
                .value(kind)
                .unwrap_or_else(|| HostTensor::from_f64(ty.clone(), vec![init.as_f64(); ty.elements()])),
            _ => self.value(kind)?,
        };
        if value.ty.dtype != DType::F32 {
            return Some(value);
        }
        let mut random = Random::new(seed);
        let near = value.to_f64().into_iter().map(|v| v * (1.0 + random.uniform(-share, share)));
        Some(HostTensor::from_f64(value.ty.clone(), near))
    }

    /// Returns the value of a leaf; `None` for a state that no step has updated, which starts with its
    /// `init`.
    pub fn value(&self, kind: &OpKind) -> Option<HostTensor> {
        let name = Graph::leaf_name(kind)?;
        if let Some(tensor) = self.given.get(name) {
            return Some(tensor.clone());
        }
        let ty = match kind {
            OpKind::Input { ty, .. } | OpKind::Param { ty, .. } => ty.clone(),
            OpKind::Scalar { dtype, .. } => Type::scalar(*dtype),
            // Return no value for states, which start with their `init`.
            _ => return None,
        };
        let mut hasher = DefaultHasher::new();
        (self.seed, name).hash(&mut hasher);
        let mut random = Random::new(hasher.finish());
        let values: Vec<f64> = match ty.dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                (0..ty.elements()).map(|_| f64::from(random.uniform(-2.0, 2.0) as f32)).collect()
            }
            DType::I32 | DType::U32 | DType::Bool | DType::U8 | DType::I64 => {
                (0..ty.elements()).map(|_| random.below(2) as f64).collect()
            }
        };
        Some(HostTensor::from_f64(ty, values))
    }
}
