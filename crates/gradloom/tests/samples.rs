//! Trains each sample in `examples/`, with the same seed and sizes as for users, and checks its documented
//! result.

#![allow(clippy::duplicate_mod, reason = "each sample has its modules, as it has when it is run")]

use gradloom::CpuDevice as _;
use gradloom::Device;

macro_rules! samples {
    ($($file:literal $name:ident)*) => {$(
        #[path = $file]
        #[allow(dead_code, unreachable_pub, reason = "the test runs a part of the sample")]
        mod $name;
    )*};
}
samples! {
    "../../../examples/addition.rs" addition
    "../../../examples/cartpole.rs" cartpole
    "../../../examples/cnn.rs" cnn
    "../../../examples/flow.rs" flow
    "../../../examples/gan.rs" gan
    "../../../examples/image.rs" image
    "../../../examples/kan.rs" kan
    "../../../examples/lstm.rs" lstm
    "../../../examples/names.rs" names
    "../../../examples/spirals.rs" spirals
    "../../../examples/tictactoe.rs" tictactoe
    "../../../examples/transformer.rs" transformer
    "../../../examples/vae.rs" vae
}

#[test]
fn spirals() {
    let outcome = spirals::train(&Device::cpu(), 60).unwrap();
    assert!(outcome.accuracy >= 0.97, "{}", outcome.accuracy);
}

#[test]
fn gan() {
    let outcome = gan::train(&Device::cpu(), 4500).unwrap();
    assert!(outcome.in_a_heap >= 0.8 && outcome.least >= 0.05, "{} {}", outcome.in_a_heap, outcome.least);
}

#[test]
fn cnn() {
    let outcome = cnn::train(&Device::cpu(), 20).unwrap();
    assert!(outcome.accuracy >= 0.96, "{}", outcome.accuracy);
}

#[test]
fn vae() {
    let outcome = vae::train(&Device::cpu(), 30).unwrap();
    assert!(outcome.like_digits >= 0.8 && outcome.different >= 8, "{}", outcome.like_digits);
}

#[test]
fn cartpole() {
    let outcome = cartpole::train(&Device::cpu(), 80).unwrap();
    assert!(outcome.moves >= 190.0, "{}", outcome.moves);
}

#[test]
fn names() {
    let outcome = names::train(&Device::cpu(), 20).unwrap();
    assert!(outcome.loss <= 2.3, "{}", outcome.loss);
    assert!(outcome.invented.len() == 20 && outcome.written < 60, "{:?}", outcome.invented);
}

#[test]
fn lstm() {
    let outcome = lstm::train(&Device::cpu(), 1000).unwrap();
    assert!(outcome.error <= 0.1, "{}", outcome.error);
}

#[test]
fn transformer() {
    let outcome = transformer::train(&Device::cpu(), 300).unwrap();
    assert!(outcome.sorted >= 0.95, "{}", outcome.sorted);
}

#[test]
fn flow() {
    let outcome = flow::train(&Device::cpu(), 4000).unwrap();
    assert!(outcome.on_a_moon >= 0.9, "{}", outcome.on_a_moon);
}

#[test]
fn image() {
    let [plain, fine] = image::train(&Device::cpu(), 300).unwrap().ratios;
    assert!(fine >= 25.0 && fine >= plain + 8.0, "{plain} {fine}");
}

#[test]
fn tictactoe() {
    let outcome = tictactoe::train(&Device::cpu(), 1200).unwrap();
    assert!(outcome.results[2] <= 0.02 && outcome.draws_itself, "{:?}\n{}", outcome.results, outcome.game);
}

#[test]
fn kan() {
    let outcome = kan::train(&Device::cpu(), 2000).unwrap();
    let [of_x, of_y] = outcome.correlations;
    assert!(of_x >= 0.99 && of_y >= 0.99 && outcome.error <= 0.1, "{of_x} {of_y} {}", outcome.error);
}

#[test]
fn addition() {
    let outcome = addition::train(&Device::cpu(), 1300).unwrap();
    assert!(outcome.right >= 0.95, "{} {:?}", outcome.right, outcome.examples);
}
