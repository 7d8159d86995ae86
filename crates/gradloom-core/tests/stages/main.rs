//! Checks that the graphs of a realistic model are valid after each stage, survive a round trip through text,
//! and compute the right values.

use gradloom_core::grad;
use gradloom_core::ir::{Graph, Guard, OpKind, Output, Type, parse};
use gradloom_core::nn::{CausalSelfAttention, Dropout, Embedding, LayerNorm, Linear, Module, Visitor};
use gradloom_core::optim::{AdamW, GRADIENT_NORM, Optimizer, Settings, Trainable, attach, scalar_name};
use gradloom_core::philox::random_word;
use gradloom_core::reference::{Evaluation, HostTensor, evaluate};
use gradloom_core::trace::{Tensor, Traced, checkpoint, i32, trace};
use gradloom_core::verify::verify;

/// One block of a language model with varied ops: gathers, dropout, a checkpoint, attention.
struct Model {
    embedding: Embedding,
    attention: CausalSelfAttention,
    norm: LayerNorm,
    head: Linear,
    dropout: Dropout,
}

impl Module for Model {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("embedding", &self.embedding);
        visitor.field("attention", &self.attention);
        visitor.field("norm", &self.norm);
        visitor.field("head", &self.head);
    }
}

const WORDS: usize = 7;
const BATCH: [usize; 2] = [2, 5];

impl Model {
    fn new() -> Self {
        Self {
            embedding: Embedding::new(WORDS, 8),
            attention: CausalSelfAttention::new(8, 2),
            norm: LayerNorm::new(8),
            head: Linear::new(8, WORDS),
            dropout: Dropout::new(0.25),
        }
    }

    fn loss(&self, ids: Tensor, targets: Tensor) -> Tensor {
        let x = self.dropout.forward(self.embedding.forward(ids));
        let x = checkpoint(|| x + self.attention.forward(self.norm.forward(x)));
        let logits = self.head.forward(x.gelu()).reshape([BATCH[0] * BATCH[1], WORDS]);
        logits.cross_entropy(targets.reshape([BATCH[0] * BATCH[1]]))
    }
}

fn traced(model: &Model) -> Traced {
    let inputs = [i32("ids", BATCH), i32("targets", BATCH)];
    trace(model, &inputs, true, |x| model.loss(x[0], x[1]), |loss| vec![loss]).unwrap()
}

/// Builds the whole training step, with the gradient of each parameter as an output `d name`.
fn training_step(traced: &Traced) -> Graph {
    let mut graph = traced.graph.clone();
    let loss = traced.results[0];
    graph.outputs.push(Output { name: "loss".into(), value: loss });
    graph.guards.push(Guard { name: "loss".into(), value: loss });
    let values: Vec<_> = traced.params.iter().map(|(_, value, _)| *value).collect();
    let gradients = grad::append(&mut graph, loss, None, &values).unwrap();
    let mut parameters = Vec::new();
    for ((name, value, _), gradient) in traced.params.iter().zip(gradients) {
        let gradient = gradient.unwrap();
        graph.outputs.push(Output { name: format!("d {name}"), value: gradient });
        parameters.push(Trainable { name: name.clone(), value: *value, gradient, decay: None, shard: None });
    }
    attach(graph, &parameters, &AdamW::new(1e-3), &Settings { clip_norm: Some(1.0), ..Settings::default() })
        .unwrap()
}

/// Returns pseudorandom values for a leaf, which depend on its name. Parameters are moved by `along` times
/// the gradients of an earlier run.
fn leaf(kind: &OpKind, along: f64, gradients: Option<&Evaluation>) -> Option<HostTensor> {
    let name = Graph::leaf_name(kind).unwrap();
    let seed = name.bytes().fold(17_u32, |seed, byte| seed.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let word = |i: usize| f64::from(random_word([seed, 0], 0, 0, i as u64, 0)) / 2_f64.powi(32);
    let fill = |ty: &Type, f: &dyn Fn(usize) -> f64| {
        Some(HostTensor::from_f64(ty.clone(), (0..ty.elements()).map(f)))
    };
    match kind {
        OpKind::Input { ty, .. } => fill(ty, &|i| (word(i) * WORDS as f64).floor()),
        OpKind::Param { ty, .. } => {
            let gradient = gradients.map(|g| g.output(&format!("d {name}")).unwrap().to_f64());
            fill(ty, &|i| word(i) - 0.5 + gradient.as_ref().map_or(0.0, |g| along * g[i]))
        }
        OpKind::Scalar { dtype, .. } => {
            let optimizer = AdamW::new(1e-3);
            let mut numbers = optimizer.hyperparameters();
            numbers.extend([("lr".to_string(), 1e-3), ("max_norm".to_string(), 1.0)]);
            let mut scalars = numbers.clone();
            optimizer.derive(&mut scalars).unwrap();
            let number = scalars.iter().find(|(number, _)| scalar_name(number) == name).map(|(_, v)| *v);
            // A scalar that is not a hyperparameter is the seed or the step of random bits.
            fill(&Type::scalar(*dtype), &|_| number.unwrap_or(if dtype.is_float() { 1.0 } else { 1234.0 }))
        }
        _ => None,
    }
}

#[track_caller]
fn assert_sound_and_readable(graph: &Graph) -> Graph {
    verify(graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let text = graph.to_string();
    let again = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.to_string(), text);
    verify(&again).unwrap();
    again
}

#[test]
fn stages_give_sound_graphs_whose_text_computes_the_same() {
    let traced = traced(&Model::new());
    let trace = assert_sound_and_readable(&traced.graph);
    assert!(trace.blocks.len() > 1, "the checkpoint is a block");
    let step = training_step(&traced);
    let again = assert_sound_and_readable(&step);
    let [a, b] = [&step, &again].map(|graph| evaluate(graph, &|kind| leaf(kind, 0.0, None)).unwrap());
    assert_eq!(a, b);
    assert!(a.committed());
    assert_eq!(a.next("optim.applied_step").unwrap().to_f64(), [1.0]);
    // The updates are those of two moments for each parameter, of the parameters themselves, and of the step
    // counter.
    assert_eq!(a.next.len(), 3 * traced.params.len() + 1);
}

#[test]
fn the_loss_climbs_along_the_gradient_as_steeply_as_its_norm_says() {
    let step = training_step(&traced(&Model::new()));
    let start = evaluate(&step, &|kind| leaf(kind, 0.0, None)).unwrap();
    let loss = |along: f64| {
        let moved = evaluate(&step, &|kind| leaf(kind, along, Some(&start))).unwrap();
        moved.output("loss").unwrap().to_f64()[0]
    };
    let norm = start.output(GRADIENT_NORM).unwrap().to_f64()[0];
    let slope = (loss(1e-5) - loss(-1e-5)) / 2e-5;
    assert!(norm > 0.1, "{norm}");
    assert!((slope / (norm * norm) - 1.0).abs() < 1e-7, "slope {slope}, squared norm {}", norm * norm);
}
