//! Runs a graph on a device as the reference evaluator runs it in float64: takes leaves by name, and returns
//! outputs, guards and next values. This serves to compare the device with the reference, and to try graphs
//! in text form.

use super::Program;
use crate::store::{Store, element};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Graph, OpKind, Type, ValueId};
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;
use gradloom_core::reference::{Evaluation, HostData, HostTensor, Leaves};
use gradloom_device::Device;
use gradloom_device::cancel::Stop;
use gradloom_device::elements::Elements;
use gradloom_device::outcome::Outcome;

impl Program {
    /// Compiles a graph with a new store, for [`Program::evaluate`]. `leaves` returns the value of each
    /// parameter, and of each state that does not start as its `init`. Runs no passes on the graph.
    ///
    /// # Errors
    /// Returns the same errors as [`Program::load`]. Also returns an error if a parameter has no value, or if
    /// the value of a leaf has another type.
    pub fn standalone(graph: Graph, device: &Device, leaves: &Leaves<'_>) -> Result<Self> {
        Self::replanned(graph, device, leaves, &|plan| plan)
    }

    pub(crate) fn replanned(
        graph: Graph,
        device: &Device,
        leaves: &Leaves<'_>,
        change: &dyn Fn(Plan) -> Plan,
    ) -> Result<Self> {
        let mut stored: Vec<(String, Type, Vec<u8>)> = Vec::new();
        for (_, op) in graph.entry_ops() {
            let given = match &op.kind {
                OpKind::Param { ty, .. } => Some(required(&op.kind, ty, leaves)?),
                OpKind::State { ty, .. } => optional(&op.kind, ty, leaves)?,
                _ => None,
            };
            let name = Graph::leaf_name(&op.kind).unwrap_or_default();
            stored.extend(given.map(|tensor| (name.to_string(), tensor.ty.clone(), bytes(&tensor))));
        }
        let store = Store::of(device);
        // Initial values are not needed, because the elements are written below, bit by bit.
        let nothing = |_: &str, _: &Type, _: &mut [f32]| Ok(());
        let program = Self::load_replanned(graph, device, &store, &nothing, change)?;
        if device.backend().is_resident() {
            let entries: Vec<(&str, &Type, &[u8])> =
                stored.iter().map(|(name, ty, bytes)| (name.as_str(), ty, &bytes[..])).collect();
            store.write(&entries)?;
        }
        Ok(program)
    }

    /// Runs one step. `leaves` returns the value of each input and scalar; parameters and states come from
    /// the store, which the step updates.
    ///
    /// # Errors
    /// Returns an error if a trap occurs, in which case nothing took effect, or if an input or scalar has no
    /// value, or one of another type.
    pub fn evaluate(&mut self, leaves: &Leaves<'_>) -> Result<Evaluation> {
        let leaf_kinds: Vec<OpKind> = self.graph().entry_ops().map(|(_, op)| op.kind.clone()).collect();
        let mut scalars = Vec::new();
        for kind in &leaf_kinds {
            match kind {
                OpKind::Input { name, ty } => self.set_input(name, &bytes(&required(kind, ty, leaves)?)),
                OpKind::Scalar { name, dtype } => {
                    scalars.push((name.clone(), required(kind, &Type::scalar(*dtype), leaves)?.get(0)));
                }
                _ => {}
            }
        }
        self.set_scalars(|name| scalars.iter().find(|(known, _)| known == name).map(|(_, number)| *number))?;
        let (mut outputs, mut guards) = (Vec::new(), Vec::new());
        let not_finite = match self.run_and_read(Stop::default(), &mut outputs, Some(&mut guards))? {
            Outcome::Committed => None,
            Outcome::NotFinite { guard } => Some(guard),
        };
        let named = |list: &[(String, Access)], of: &[ValueId], values: &[Elements]| {
            let tensors = list.iter().zip(of).zip(values).map(|(((name, _), value), bytes)| {
                (name.clone(), tensor(self.graph().ty(*value).clone(), bytes))
            });
            tensors.collect()
        };
        let outputs_of: Vec<ValueId> = self.graph().outputs.iter().map(|output| output.value).collect();
        let guards_of: Vec<ValueId> = self.graph().guards.iter().map(|guard| guard.value).collect();
        let outputs = named(&self.plan().outputs, &outputs_of, &outputs);
        let guards = named(&self.plan().guards, &guards_of, &guards);
        Ok(Evaluation { outputs, guards, not_finite, next: self.next_values()? })
    }

    /// Returns the value of each updated parameter or state, in the order of first update.
    fn next_values(&self) -> Result<Vec<(String, HostTensor)>> {
        let mut next: Vec<(String, HostTensor)> = Vec::new();
        for update in &self.graph().updates {
            let op = self.graph().defining_op(update.target).expect("the graph was verified");
            let name = Graph::leaf_name(&op.kind).unwrap_or_default();
            if next.iter().all(|(known, _)| known != name) {
                let bytes = self.store().read(name)?;
                next.push((name.to_string(), tensor(self.graph().ty(update.target).clone(), &bytes)));
            }
        }
        Ok(next)
    }
}

fn optional(kind: &OpKind, ty: &Type, leaves: &Leaves<'_>) -> Result<Option<HostTensor>> {
    let Some(tensor) = leaves(kind) else { return Ok(None) };
    let fail =
        |message| Error::new(ErrorKind::Feed, format!("the {} `{}`: {message}", kind.name(), name(kind)));
    if tensor.ty != *ty {
        return Err(fail(format!("a value of type {} for {ty}", tensor.ty)));
    }
    tensor.check().map_err(fail)?;
    Ok(Some(tensor))
}

fn required(kind: &OpKind, ty: &Type, leaves: &Leaves<'_>) -> Result<HostTensor> {
    optional(kind, ty, leaves)?.ok_or_else(|| {
        Error::new(ErrorKind::Feed, format!("the {} `{}` has no value", kind.name(), name(kind)))
    })
}

fn name(kind: &OpKind) -> &str {
    Graph::leaf_name(kind).unwrap_or_default()
}

pub(super) fn bytes(tensor: &HostTensor) -> Vec<u8> {
    (0..tensor.len()).flat_map(|i| element(tensor.ty.dtype, tensor.get(i))).collect()
}

pub(crate) fn tensor(ty: Type, bytes: &[u8]) -> HostTensor {
    let words = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
    match ty.dtype {
        DType::F32 => HostTensor::from_f64(ty, words.map(|w| f64::from(f32::from_le_bytes(w)))),
        DType::I32 => HostTensor::from_f64(ty, words.map(|w| f64::from(i32::from_le_bytes(w)))),
        DType::U32 => HostTensor::from_f64(ty, words.map(|w| f64::from(u32::from_le_bytes(w)))),
        dtype @ (DType::F16 | DType::BF16) => {
            let pairs = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
            HostTensor::from_f64(ty, pairs.map(|bits| f64::from(dtype.of_narrow_bits(bits))))
        }
        DType::Bool | DType::U8 => HostTensor::from_f64(ty, bytes.iter().map(|&b| f64::from(b))),
        DType::I64 => {
            let numbers = bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
            HostTensor { ty, data: HostData::Int(numbers.collect()) }
        }
    }
}
