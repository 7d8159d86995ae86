//! Compares layers, with the gradients of their inputs and parameters and their updated states, with PyTorch
//! in float64: see `scripts/oracle/layers.py`.

mod common;

use common::{Oracle, leaf_name};
use gradloom::ir::{Graph, OpKind, Output, Type};
use gradloom::prelude::*;
use gradloom::reference::{Evaluation, HostTensor, evaluate};
use gradloom::runtime::Program;
use gradloom::trace::Input;
use std::collections::BTreeSet;

fn layers() -> Vec<(&'static str, Box<dyn Layer>)> {
    let options = ConvOptions::new;
    let part = options().stride(2).padding(1).groups(2);
    vec![
        ("linear", Box::new(Linear::new(4, 3))),
        ("layer_norm", Box::new(LayerNorm::new(6))),
        ("rms_norm", Box::new(RmsNorm::new(6))),
        ("group_norm", Box::new(GroupNorm::new(2, 4))),
        ("conv1d", Box::new(Conv1d::new(3, 4, 3, options().padding(1)))),
        ("conv2d", Box::new(Conv2d::new(4, 6, 3, part.clone()))),
        ("conv_transpose1d", Box::new(ConvTranspose1d::new(3, 2, 4, options().stride(2)))),
        ("conv_transpose2d", Box::new(ConvTranspose2d::new(4, 6, 3, part.output_padding(1)))),
        ("batch_norm", Box::new(BatchNorm::new(4))),
        ("batch_norm_inference", Box::new(BatchNorm::new(4))),
        ("lstm", Box::new(Lstm::new(3, 4))),
        ("gru", Box::new(Gru::new(3, 4))),
        ("cross_attention", Box::new(Cross(MultiHeadAttention::with_context(8, 4, 6, 2)))),
        ("transformer_block", Box::new(TransformerBlock::new(8, 2).hidden(12).causal())),
        ("transformer_block_norm_last", Box::new(TransformerBlock::new(8, 2).norm_last())),
    ]
}

/// Cross-attention from a text to a part of it.
#[derive(Clone)]
struct Cross(MultiHeadAttention);

impl Module for Cross {
    fn visit(&self, visitor: &mut gradloom::nn::Visitor<'_>) {
        self.0.visit(visitor);
    }
}

impl Layer for Cross {
    fn apply(&self, x: Tensor) -> Tensor {
        self.0.over(x, x.slice(1, 0..3).slice(2, 0..6), AttentionOptions::full())
    }
}

/// Returns the graph of a layer, with the outputs named as in the file.
fn graph(oracle: &Oracle, name: &str, layer: &dyn Layer) -> Graph {
    let input = |key: &str| Input {
        name: key.into(),
        ty: Type::new(DType::F32, oracle.shape(&format!("{name}/{key}"))),
    };
    let mut names = vec!["y".to_string(), "gx".to_string()];
    let training = !name.ends_with("inference");
    let mut params = Vec::new();
    layer.visit(&mut gradloom::nn::Visitor::new(&mut |path, param| {
        params.push((path.to_string(), param.tie()))
    }));
    let traced = gradloom::trace::trace(
        &Of(layer),
        &[input("x"), input("u")],
        training,
        |inputs| {
            let y = layer.apply(inputs[0]);
            let loss = (y * inputs[1]).sum();
            let mut results = vec![y, gradients(loss, [inputs[0]])[0]];
            for (path, param) in &params {
                names.push(format!("g.{path}"));
                results.push(gradients(loss, [param.tensor()])[0]);
            }
            results
        },
        |results| results,
    );
    let mut traced = traced.unwrap_or_else(|error| panic!("{error}"));
    for (name, &value) in names.iter().zip(&traced.results) {
        traced.graph.outputs.push(Output { name: name.clone(), value });
    }
    traced.graph
}

/// Adapter that makes a borrowed layer the model of a trace.
struct Of<'a>(&'a dyn Layer);

impl Module for Of<'_> {
    fn visit(&self, visitor: &mut gradloom::nn::Visitor<'_>) {
        self.0.visit(visitor);
    }
}

fn check(
    what: &str,
    tolerance: f64,
    run: impl Fn(&Graph, &dyn Fn(&OpKind) -> Option<HostTensor>) -> Evaluation,
) {
    let oracle = Oracle::load("layers.safetensors");
    let mut tested = BTreeSet::new();
    for (name, layer) in layers() {
        let graph = graph(&oracle, name, &*layer);
        let leaf = |kind: &OpKind| -> Option<HostTensor> {
            let own = leaf_name(kind)?;
            let key = match kind {
                OpKind::Input { .. } => format!("{name}/{own}"),
                OpKind::Param { .. } | OpKind::State { .. } => format!("{name}/p.{own}"),
                _ => return None,
            };
            Some(oracle.host(&key, DType::F32))
        };
        let found = run(&graph, &leaf);
        let outputs = found.outputs.iter().map(|(key, tensor)| (format!("{name}/{key}"), tensor));
        let states = found.next.iter().map(|(key, tensor)| (format!("{name}/s.{key}"), tensor));
        for (key, got) in outputs.chain(states) {
            // Allow a larger error: adding the same number to the scores of all keys changes nothing, so this
            // gradient consists only of rounding errors.
            let least = if key.ends_with("key.bias") { 1.0 } else { 1e-2 };
            common::assert_near(&format!("{what}: {key}"), &got.to_f64(), oracle.get(&key), tolerance, least);
            tested.insert(key);
        }
    }
    let results = |name: &&str| !name.ends_with("/x") && !name.ends_with("/u") && !name.contains("/p.");
    let wanted: BTreeSet<String> = oracle.names().filter(results).map(String::from).collect();
    assert_eq!(tested, wanted, "what the file has and what was compared");
}

#[test]
fn the_reference_agrees_with_pytorch() {
    check("reference", 1e-7, |graph, leaf| evaluate(graph, leaf).unwrap());
}

fn on(device: &Device, graph: &Graph, leaf: &dyn Fn(&OpKind) -> Option<HostTensor>) -> Evaluation {
    let (graph, _) = gradloom::passes::run(graph.clone());
    let program = Program::standalone(graph, device, &leaf);
    program.and_then(|mut program| program.evaluate(&leaf)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_cpu_agrees_with_pytorch() {
    check("cpu", 1e-5, |graph, leaf| on(&Device::cpu(), graph, leaf));
}

#[cfg(feature = "wgpu")]
#[test]
fn a_gpu_agrees_with_pytorch() {
    let Some(device) = common::gpu() else { return };
    check("gpu", 1e-5, |graph, leaf| on(&device, graph, leaf));
}

/// On the CPU, products of a few rows with the transpose of the same matrix share one copy of it.
#[test]
fn products_that_share_an_operand_agree_with_the_reference() {
    let rows = [5, 7, 12, 48, 49];
    let mut text = String::from("graph {\n%0: f32[35, 33] = input \"w\"\n");
    for (i, rows) in rows.iter().enumerate() {
        let value = 2 * i + 1;
        text += &format!("%{value}: f32[{rows}, 33] = input \"x{i}\"\n");
        text += &format!(
            "%{}: f32[{rows}, 35] = dot %{value}, %0 {{lhs_contract=[1], rhs_contract=[1]}}\n",
            value + 1
        );
    }
    (0..rows.len()).for_each(|i| text += &format!("output \"y{i}\" %{}\n", 2 * i + 2));
    let graph = gradloom::ir::parse(&(text + "}")).unwrap();
    let leaf = |kind: &OpKind| {
        let OpKind::Input { name, ty } = kind else { return None };
        let salt = name.len() + usize::from(*name.as_bytes().last()?);
        let values = (0..ty.shape.elements()).map(|i| (((i + salt) * 37 % 101) as f64 - 50.0) / 64.0);
        Some(HostTensor::from_f64(ty.clone(), values))
    };
    let (got, want) = (on(&Device::cpu(), &graph, &leaf), evaluate(&graph, &leaf).unwrap());
    for ((name, got), (_, want)) in got.outputs.iter().zip(&want.outputs) {
        common::assert_near(name, &got.to_f64(), &want.to_f64(), 1e-6, 1e-2);
    }
}
