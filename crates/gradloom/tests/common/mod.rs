//! Reads the data files that `scripts/oracle/` generated with PyTorch in float64.
#![allow(dead_code, unreachable_pub)] // Each test uses only a part.

use gradloom::CpuDevice as _;
use gradloom::ir::{DType, OpKind, Type};
use gradloom::reference::HostTensor;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;

/// Tensors by name, with shapes and float64 elements.
pub struct Oracle(BTreeMap<String, OracleTensor>);

struct OracleTensor {
    shape: Vec<usize>,
    elements: Vec<f64>,
    whole: bool,
}

impl Oracle {
    pub fn load(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(file);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let tensors = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let elements = |dtype: Dtype, data: &[u8]| -> Vec<f64> {
            match dtype {
                Dtype::F64 => {
                    data.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
                }
                Dtype::F32 => {
                    data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect()
                }
                Dtype::I32 => {
                    data.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()).into()).collect()
                }
                other => panic!("{other:?} in an oracle file"),
            }
        };
        let all = tensors.iter().map(|(name, t)| {
            let (shape, elements) = (t.shape().to_vec(), elements(t.dtype(), t.data()));
            (name.to_string(), OracleTensor { shape, elements, whole: t.dtype() == Dtype::I32 })
        });
        Self(all.collect())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn shape(&self, name: &str) -> &[usize] {
        &self.0[name].shape
    }

    pub fn get(&self, name: &str) -> &[f64] {
        &self.0.get(name).unwrap_or_else(|| panic!("no {name} in the oracle file")).elements
    }

    /// Returns `true` if a case has a tensor with this number or letter.
    pub fn has(&self, case: &str, tensor: impl std::fmt::Display) -> bool {
        self.0.contains_key(&format!("{case}/{tensor}"))
    }

    /// Returns `true` if the tensor has an integer dtype.
    pub fn is_whole(&self, name: &str) -> bool {
        self.0[name].whole
    }

    pub fn number(&self, name: &str) -> f64 {
        self.get(name)[0]
    }

    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.get(name).iter().map(|&v| v as f32).collect()
    }

    pub fn i32(&self, name: &str) -> Vec<i32> {
        self.get(name).iter().map(|&v| v as i32).collect()
    }

    pub fn host(&self, name: &str, dtype: DType) -> HostTensor {
        HostTensor::from_f64(Type::new(dtype, self.shape(name)), self.get(name).iter().copied())
    }
}

/// Writes parameters to the store of a training program.
pub fn set_parameters(store: &gradloom::Store, parameters: &[(String, Type, Vec<f32>)]) {
    let bytes: Vec<Vec<u8>> =
        parameters.iter().map(|(_, _, v)| v.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let entries: Vec<(&str, &Type, &[u8])> =
        parameters.iter().zip(&bytes).map(|((name, ty, _), b)| (name.as_str(), ty, b.as_slice())).collect();
    store.write(&entries).unwrap();
}

pub fn leaf_name(kind: &OpKind) -> Option<&str> {
    gradloom::ir::Graph::leaf_name(kind)
}

pub fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Asserts `|got - want| <= tolerance * max(|want|, floor)`, where `|x|` is the norm of the whole tensor.
#[track_caller]
pub fn assert_near(what: &str, got: &[f64], want: &[f64], tolerance: f64, floor: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let difference = norm(&got.iter().zip(want).map(|(g, w)| g - w).collect::<Vec<_>>());
    let bound = tolerance * norm(want).max(floor);
    assert!(difference <= bound, "{what}: off by {difference:.3e}, allowed {bound:.3e}");
}

pub fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| v.into()).collect()
}

/// Returns the adapter under test: one whose name contains `GRADLOOM_ADAPTER`, or any. Returns `None`, and
/// records that the test is skipped, if there is no adapter.
#[cfg(feature = "wgpu")]
pub fn gpu() -> Option<gradloom::Device> {
    if gradloom_testing::adapter::skipped(gradloom::adapters().is_empty()) {
        return None;
    }
    let name = gradloom_testing::adapter::name();
    Some(gradloom::testing::gpu(&name).unwrap_or_else(|error| panic!("{error}")))
}

/// Returns the CPU, and the adapter under test, if there is one.
pub fn devices() -> Vec<gradloom::Device> {
    #[cfg(feature = "wgpu")]
    return [gradloom::Device::cpu()].into_iter().chain(gpu()).collect();
    #[cfg(not(feature = "wgpu"))]
    vec![gradloom::Device::cpu()]
}
