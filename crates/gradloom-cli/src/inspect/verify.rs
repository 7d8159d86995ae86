//! `--verify`: the compiler's graphs in float64 against each other, and the CPU against float64.

use crate::failure::{Failure, Result};
use crate::format::count;
use crate::model::{compile, optimizer};
use crate::output::print_line;
use crate::train::settings::Settings;
use gradloom::Device;
use gradloom::ir::{DType, Graph, OpKind, Type};
use gradloom::optim::{Optimizer, scalar_name};
use gradloom::reference::{Evaluation, HostTensor, evaluate};
use gradloom_models::data::Batches;
use std::collections::HashMap;

/// Largest difference of two float64 evaluations of graphs with one meaning.
const REWRITE_TOLERANCE: f64 = 1e-10;
/// Largest difference between float32 on a device and float64.
const DEVICE_TOLERANCE: f64 = 1e-5;

/// Values of one training step by name: outputs, then everything that persists.
type Values = Vec<(String, Vec<f64>)>;

/// Runs one step of a shrunk model and compares.
pub(super) fn run(settings: &Settings) -> Result<()> {
    let settings = shrunk(settings);
    let model = &settings.model;
    print_line!(
        "shrunk to {}, {}, width {}, context {}, {} tokens of vocabulary, batch {}\n",
        count(model.layers, "layer"),
        count(model.heads, "head"),
        model.width,
        model.context,
        model.vocabulary,
        settings.training.batch
    )?;
    let mut train = compile(&settings, &Device::cpu())?;
    let tokens: Vec<i32> = (0..4096u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as i32 % model.vocabulary as i32)
        .collect();
    let (ids, targets) = Batches::new(1, settings.training.batch, model.context).draw(0, &tokens);

    let mut leaves = HashMap::new();
    let store = train.store();
    for entry in store.entries() {
        leaves.insert(entry.name.clone(), decoded(&entry.ty, &store.read(&entry.name)?));
    }
    let shape = [settings.training.batch, model.context];
    for (name, data) in [("ids", &ids), ("targets", &targets)] {
        let values = data.iter().map(|&id| f64::from(id));
        leaves.insert(name.to_string(), HostTensor::from_f64(Type::new(DType::I32, shape), values));
    }

    let step = train.step((&ids, &targets))?;
    step.result()?;
    let mut scalars = train.hyperparameters().clone();
    optimizer(&settings).derive(&mut scalars)?;
    for (name, value) in scalars {
        leaves.insert(scalar_name(&name), HostTensor::from_f64(Type::scalar(DType::F32), [value]));
    }
    let seed = settings.training.seed;
    for (name, value) in [("rng.seed_lo", seed as u32), ("rng.seed_hi", (seed >> 32) as u32), ("rng.step", 0)]
    {
        leaves.insert(name.to_string(), HostTensor::from_f64(Type::scalar(DType::U32), [f64::from(value)]));
    }
    let value_of = |kind: &OpKind| Graph::leaf_name(kind).and_then(|name| leaves.get(name).cloned());
    let evaluated = |graph: &Graph| -> Result<Values> { Ok(values(&evaluate(graph, &value_of)?)) };

    let stages = train.stages();
    let before = evaluated(&stages.optim)?;
    let after = evaluated(&stages.passes)?;
    let mut computed = Values::new();
    for (name, reference) in &after {
        let values = if reference.len() == 1 && stages.passes.output(name).is_some() {
            step.get(name)?.into_iter().map(f64::from).collect()
        } else {
            let ty = store.entries().into_iter().find(|e| e.name == *name).map(|e| e.ty);
            let ty = ty.ok_or_else(|| Failure::failed(format!("the store has no `{name}`")))?;
            decoded(&ty, &store.read(name)?).to_f64()
        };
        computed.push((name.clone(), values));
    }
    let rewrites = report("float64, after the passes against before", &before, &after, REWRITE_TOLERANCE)?;
    let device = report("CPU against float64", &after, &computed, DEVICE_TOLERANCE)?;
    if rewrites && device {
        return print_line!("all within the tolerance");
    }
    Err(Failure::failed("values differ by more than the tolerance")
        .help("this is a fault of gradloom: please report it with the preset and the processor"))
}

/// Small enough for the reference evaluator, with every part of the model still there.
fn shrunk(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let model = &mut settings.model;
    model.layers = model.layers.min(2);
    model.heads = model.heads.min(3);
    model.width = model.heads * 8;
    model.context = model.context.min(12);
    model.vocabulary = model.vocabulary.min(61);
    settings.training.batch = settings.training.batch.min(2);
    settings.training.threads = None;
    settings
}

fn decoded(ty: &Type, bytes: &[u8]) -> HostTensor {
    let words = bytes.chunks_exact(ty.dtype.bytes());
    let number = |b: &[u8]| match (ty.dtype, b) {
        (DType::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (DType::I32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
        (DType::U32, &[a, b, c, d]) => f64::from(u32::from_le_bytes([a, b, c, d])),
        (DType::I64, &[a, b, c, d, e, f, g, h]) => i64::from_le_bytes([a, b, c, d, e, f, g, h]) as f64,
        _ => f64::from(b[0]),
    };
    HostTensor::from_f64(ty.clone(), words.map(number))
}

fn values(evaluation: &Evaluation) -> Values {
    let all = evaluation.outputs.iter().chain(&evaluation.next);
    all.map(|(name, tensor)| (name.clone(), tensor.to_f64())).collect()
}

/// Prints the largest difference of each group of values; tells whether all are within the tolerance.
fn report(title: &str, expected: &Values, found: &Values, tolerance: f64) -> Result<bool> {
    print_line!("{title} (tolerance {tolerance:.0e})")?;
    let mut good = true;
    for group in ["output", "gradient", "squared gradient", "parameter"] {
        let members = || {
            let group = expected.iter().filter(|(name, _)| group_of(name) == group);
            group
                .map(|(name, e)| (name, e, found.iter().find(|(n, _)| n == name).map_or(&[][..], |(_, f)| f)))
        };
        // A tensor whose exact value is zero (the gradient of the keys' bias) holds nothing but rounding:
        // tensors that are tiny against their group are measured against a thousandth of the group's largest.
        // Parameters move by about the learning rate whatever their gradient's size, so theirs are measured
        // against the largest of all.
        let largest = members().map(|(_, e, _)| norm(e)).fold(0.0, f64::max);
        let floor = if group == "parameter" { largest } else { 1e-3 * largest };
        let worst = members()
            .map(|(name, e, f)| (difference(e, f) / norm(e).max(floor).max(f64::MIN_POSITIVE), name))
            .fold(
                (0.0, None),
                |worst, (d, name)| if d >= worst.0 || d.is_nan() { (d, Some(name)) } else { worst },
            );
        if let (value, Some(name)) = worst {
            let within = value <= tolerance;
            good &= within;
            print_line!(
                "  {group:<17} {value:>9.1e}  {name}{}",
                if within { "" } else { "   <- too large" }
            )?;
        }
    }
    print_line!("")?;
    Ok(good)
}

fn group_of(name: &str) -> &'static str {
    match name {
        _ if name.starts_with("optim.m.") => "gradient",
        _ if name.starts_with("optim.v.") => "squared gradient",
        _ if name.ends_with("weight") || name.ends_with("bias") => "parameter",
        _ => "output",
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Infinite when there is nothing to compare with.
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
        let values =
            |x: f64| vec![("optim.m.a.weight".to_string(), vec![1.0, x]), ("loss".to_string(), vec![2.0])];
        assert!(report("", &values(0.5), &values(0.5), 1e-10).unwrap());
        assert!(!report("", &values(0.5), &values(0.5 + 1e-8), 1e-10).unwrap());
        assert!(!report("", &values(0.5), &values(f64::NAN), 1e-10).unwrap(), "NaN is no agreement");
        assert!(
            !report("", &values(0.5), &values(0.5)[1..].to_vec(), 1e-10).unwrap(),
            "nor is a value that is missing"
        );
    }
}
