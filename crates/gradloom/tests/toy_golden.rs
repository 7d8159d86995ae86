//! Reproduces the loss curve of Toy's GPT-2 engine ("Golden A") through the public API, with its initializer,
//! soft labels, and a last position whose target is itself. See `tests/data/toy_golden_a.txt` for the
//! settings.

mod common;

use gradloom::ir::Type;
use gradloom::nn::CausalSelfAttention;
use gradloom::prelude::*;

const VOCABULARY: usize = 32;
const WIDTH: usize = 16;
const HEADS: usize = 4;
const HIDDEN: usize = 32;
const LAYERS: usize = 2;
const CONTEXT: usize = 8;

#[derive(Module)]
struct ToyGpt {
    wte: Embedding,
    wpe: Embedding,
    h: Vec<Block>,
    ln_f: LayerNorm,
}

#[derive(Module)]
struct Block {
    ln_1: LayerNorm,
    attn: CausalSelfAttention,
    ln_2: LayerNorm,
    fc: Linear,
    proj: Linear,
}

impl ToyGpt {
    fn new() -> Self {
        let block = || Block {
            ln_1: LayerNorm::new(WIDTH),
            attn: CausalSelfAttention::new(WIDTH, HEADS),
            ln_2: LayerNorm::new(WIDTH),
            fc: Linear::new(WIDTH, HIDDEN),
            proj: Linear::new(HIDDEN, WIDTH),
        };
        Self {
            wte: Embedding::new(VOCABULARY, WIDTH),
            wpe: Embedding::new(CONTEXT, WIDTH),
            h: (0..LAYERS).map(|_| block()).collect(),
            ln_f: LayerNorm::new(WIDTH),
        }
    }

    fn forward(&self, ids: Tensor) -> Tensor {
        let mut x = self.wte.forward(ids) + &self.wpe.weight;
        for block in &self.h {
            x = x + block.attn.forward(block.ln_1.forward(x));
            x = x + block.proj.forward(block.fc.forward(block.ln_2.forward(x)).gelu_tanh());
        }
        self.ln_f.forward(x).matmul(self.wte.weight.tensor().transpose(0, 1))
    }
}

/// Toy's linear congruential generator of weights in [-0.02, 0).
struct Lcg(u64);

impl Lcg {
    fn weight(&mut self) -> f32 {
        self.0 = (self.0 * 1_103_515_245 + 12_345) & 0x7fff_ffff;
        (((self.0 >> 8) as f64 / 8_388_608.0 - 1.0) * 0.02) as f32
    }

    /// Returns a matrix `[rows, columns]`, generated row by row.
    fn matrix(&mut self, rows: usize, columns: usize) -> Vec<Vec<f32>> {
        (0..rows).map(|_| (0..columns).map(|_| self.weight()).collect()).collect()
    }
}

/// Transposes `[out, in]` to `[in, out]`, row-major.
fn transposed(matrix: &[Vec<f32>]) -> Vec<f32> {
    (0..matrix[0].len()).flat_map(|column| matrix.iter().map(move |row| row[column])).collect()
}

fn initial_weights() -> Vec<(String, Vec<f32>)> {
    let mut lcg = Lcg(1234);
    let depth = WIDTH / HEADS;
    let mut weights = vec![
        ("wte.weight".to_string(), lcg.matrix(VOCABULARY, WIDTH).concat()),
        ("wpe.weight".to_string(), lcg.matrix(CONTEXT, WIDTH).concat()),
    ];
    for layer in 0..LAYERS {
        // Rows of the transposed joint projection: all queries, all keys, all values, each by head.
        let mut parts: [Vec<Vec<f32>>; 3] = Default::default();
        for _ in 0..HEADS {
            for part in &mut parts {
                part.extend(lcg.matrix(depth, WIDTH));
            }
        }
        let mut add =
            |name: &str, matrix: &[Vec<f32>]| weights.push((format!("h.{layer}.{name}"), transposed(matrix)));
        add("attn.c_attn.weight", &parts.concat());
        add("attn.c_proj.weight", &lcg.matrix(WIDTH, WIDTH));
        add("fc.weight", &lcg.matrix(HIDDEN, WIDTH));
        add("proj.weight", &lcg.matrix(WIDTH, HIDDEN));
    }
    weights
}

#[test]
fn golden_a() {
    let mut train = Trainer::new(ToyGpt::new())
        .inputs([i32("ids", [1, CONTEXT]), f32("labels", [1, CONTEXT, VOCABULARY])])
        .loss(|gpt, [ids, labels]| gpt.forward(ids).cross_entropy(labels))
        .optimizer(AdamW::new(0.01).weight_decay(0.0))
        .compile(&Device::cpu())
        .unwrap();

    let store = train.store();
    let mut given = initial_weights();
    let parameters: Vec<(String, Type, Vec<f32>)> = store
        .entries()
        .into_iter()
        .filter(|entry| entry.init.is_none())
        .map(|entry| {
            let values = match given.iter().position(|(name, _)| *name == entry.name) {
                Some(i) => given.remove(i).1,
                None if entry.name.contains("ln_") && entry.name.ends_with("weight") => {
                    vec![1.0; entry.ty.elements()]
                }
                None => vec![0.0; entry.ty.elements()],
            };
            (entry.name, entry.ty, values)
        })
        .collect();
    assert!(
        given.is_empty(),
        "weights without a parameter: {:?}",
        given.iter().map(|(n, _)| n).collect::<Vec<_>>()
    );
    common::set_parameters(&store, &parameters);

    let ids: Vec<i32> = (0..CONTEXT as i32).map(|i| (7 * i + 3) % 32).collect();
    let mut labels = vec![0.0f32; CONTEXT * VOCABULARY];
    for position in 0..CONTEXT {
        let target = ids[(position + 1).min(CONTEXT - 1)] as usize;
        labels[position * VOCABULARY + target] = 1.0;
    }

    let golden: Vec<(usize, f64)> = include_str!("../../../tests/data/toy_golden_a.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (step, loss) = line.split_once(' ').unwrap();
            (step.parse().unwrap(), loss.parse().unwrap())
        })
        .collect();
    assert_eq!(golden.len(), 7);
    for number in 1..=20 {
        let loss = f64::from(train.step((&ids, &labels)).unwrap().loss().unwrap());
        if let Some((_, want)) = golden.iter().find(|(step, _)| *step == number) {
            assert!((loss / want - 1.0).abs() < 1e-5, "step {number}: {loss} against {want}");
        }
    }
}
