//! Verifies one training step by computing it in three ways.
//!
//! In: the stages of a step, the contents of its store, and data. Out: the deviation of the graph after the
//! passes from the graph before them, both in float64, and of the device from float64. Neither the program
//! nor its store changes.

use super::Stages;
use crate::program::{Program, host_tensor};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{Graph, Number, OpKind, Type};
use gradloom_core::reference::{Evaluation, HostTensor, evaluate};
use gradloom_device::Device;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Maximum relative difference between float64 evaluations of equivalent graphs.
const REWRITE_TOLERANCE: f64 = 1e-10;
/// Maximum relative difference between float32 on a device and float64.
const DEVICE_TOLERANCE: f64 = 1e-5;

/// Result of [`Train::verify`](super::Train::verify). `Display` prints tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// Deviations of the graph after the passes from the graph before them, in float64: the worst of each
    /// group.
    pub rewrites: Vec<Deviation>,
    /// Deviations of the device from float64: the worst of each group.
    pub device: Vec<Deviation>,
}

/// Value of a group with the largest deviation.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Group: `output`, `gradient` or `squared gradient` (as kept by the optimizer), `parameter` or `state`.
    pub group: &'static str,
    /// Name of the value.
    pub name: String,
    /// Norm of the difference, relative to the norm of the value, or to a norm of its group if the value is
    /// tiny.
    pub error: f64,
}

impl Verification {
    /// Checks that no value deviates by more than rounding explains: 1e-10 between the graphs, 1e-5 on the
    /// device.
    ///
    /// # Errors
    /// Returns an error that names a value with a larger deviation.
    pub fn check(&self) -> Result<()> {
        let too_large = |list: &[Deviation], tolerance: f64| {
            list.iter().find(|deviation| !deviation.is_within(tolerance)).cloned()
        };
        let worst = too_large(&self.rewrites, REWRITE_TOLERANCE);
        match worst.or_else(|| too_large(&self.device, DEVICE_TOLERANCE)) {
            None => Ok(()),
            Some(Deviation { group, name, error }) => {
                let message = format!("the {group} `{name}` differs by {error:.1e} from what it should be");
                Err(Error::new(ErrorKind::Verify, message).help(
                    "in f32 and without numbers near the ends of its range this is a fault of gradloom: please \
                     report it with the model and the device",
                ))
            }
        }
    }
}

impl Deviation {
    /// Returns `true` if the error is at most `tolerance`; `false` for NaN.
    fn is_within(&self, tolerance: f64) -> bool {
        self.error <= tolerance
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rewrites = "float64, after the passes against before";
        for (title, list, tolerance) in [
            (rewrites, &self.rewrites, REWRITE_TOLERANCE),
            ("device against float64", &self.device, DEVICE_TOLERANCE),
        ] {
            writeln!(f, "{title} (tolerance {tolerance:.0e})")?;
            for deviation in list {
                let Deviation { group, name, error } = deviation;
                let mark = if deviation.is_within(tolerance) { "" } else { "   <- too large" };
                writeln!(f, "  {group:<17} {error:>9.1e}  {name}{mark}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

pub(super) fn verify(
    stages: &Stages,
    program: &Program,
    device: &Device,
    inputs: &[(&str, &[u8])],
    scalar: &dyn Fn(&str) -> Option<Number>,
) -> Result<Verification> {
    let content = program.store().read_where(|_| true)?;
    let content: HashMap<&str, &[u8]> =
        content.iter().map(|(entry, bytes)| (entry.name.as_str(), &bytes[..])).collect();
    let leaves = |kind: &OpKind| match kind {
        OpKind::Input { name, ty } => {
            let fed = inputs.iter().find(|(known, _)| known == name);
            fed.map(|(_, bytes)| host_tensor(ty.clone(), bytes))
        }
        OpKind::Param { name, ty } | OpKind::State { name, ty, .. } => {
            content.get(name.as_str()).map(|bytes| host_tensor(ty.clone(), bytes))
        }
        OpKind::Scalar { name, dtype } => {
            scalar(name).map(|number| HostTensor::from_f64(Type::scalar(*dtype), [number.as_f64()]))
        }
        _ => None,
    };
    let before = evaluate(&stages.optim, &leaves)?;
    let after = evaluate(&stages.passes, &leaves)?;
    let computed = Program::standalone(stages.passes.clone(), device, &leaves)?.evaluate(&leaves)?;
    let parameters = parameters(&stages.optim);
    let values = |evaluation: &Evaluation| values(evaluation, &parameters);
    let (before, after, computed) = (values(&before), values(&after), values(&computed));
    Ok(Verification { rewrites: worst(&before, &after), device: worst(&after, &computed) })
}

/// Value of a step: its group, name and elements.
type Value = (&'static str, String, Vec<f64>);

/// Returns the outputs, then all parameters and states that were updated.
fn values(evaluation: &Evaluation, parameters: &HashSet<&str>) -> Vec<Value> {
    let output = |(name, tensor): &(String, HostTensor)| ("output", name.clone(), tensor.to_f64());
    let next = |(name, tensor): &(String, HostTensor)| {
        let group = match name.as_str() {
            name if parameters.contains(name) => "parameter",
            name if name.starts_with("optim.m.") => "gradient",
            name if name.starts_with("optim.v.") => "squared gradient",
            _ => "state",
        };
        (group, name.clone(), tensor.to_f64())
    };
    evaluation.outputs.iter().map(output).chain(evaluation.next.iter().map(next)).collect()
}

fn parameters(graph: &Graph) -> HashSet<&str> {
    let name = |kind: &OpKind| matches!(kind, OpKind::Param { .. });
    let params = graph.entry_ops().filter(|(_, op)| name(&op.kind));
    params.filter_map(|(_, op)| Graph::leaf_name(&op.kind)).collect()
}

/// Returns the largest deviation of each group of values.
fn worst(expected: &[Value], found: &[Value]) -> Vec<Deviation> {
    let groups = ["output", "gradient", "squared gradient", "parameter", "state"];
    let of_group = |group: &'static str| {
        let members = || {
            let members = expected.iter().filter(move |(of, ..)| *of == group);
            members.map(|(_, name, e)| {
                (name, e, found.iter().find(|(_, n, _)| n == name).map_or(&[][..], |(.., f)| f))
            })
        };
        // A tensor whose exact value is zero (such as the gradient of the keys' bias) contains only rounding
        // errors, so the difference of a tensor that is tiny compared to its group is relative to a
        // thousandth of the group's largest norm. Parameters move by about the learning rate, whatever the
        // size of their gradient, so their differences are relative to the largest norm of all parameters.
        let largest = members().map(|(_, e, _)| norm(e)).fold(0.0, f64::max);
        let floor = if group == "parameter" { largest } else { 1e-3 * largest };
        members()
            .map(|(name, e, f)| Deviation {
                group,
                name: name.clone(),
                error: difference(e, f) / norm(e).max(floor).max(f64::MIN_POSITIVE),
            })
            .max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()))
    };
    groups.into_iter().filter_map(of_group).collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Returns the norm of the difference of two lists, or infinity if their lengths differ.
fn difference(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    norm(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_is_reported() {
        let values = |x: f64| {
            vec![
                ("gradient", "optim.m.a.weight".to_string(), vec![1.0, x]),
                ("output", "loss".to_string(), vec![2.0]),
            ]
        };
        let check = |found: &[Value]| {
            let verification = Verification { rewrites: worst(&values(0.5), found), device: Vec::new() };
            (verification.check().is_ok(), verification.to_string().contains("too large"))
        };
        assert_eq!(check(&values(0.5)), (true, false));
        assert_eq!(check(&values(0.5 + 1e-8)), (false, true));
        assert_eq!(check(&values(f64::NAN)), (false, true), "NaN is no agreement");
        assert_eq!(check(&values(0.5)[1..]), (false, true), "nor is a value that is missing");
    }
}
