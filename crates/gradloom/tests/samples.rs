//! Each sample of `examples/` is trained, with the seed and the sizes that its user runs, to its stated
//! result.

use gradloom::Device;

macro_rules! samples {
    ($($file:literal $name:ident)*) => {$(
        #[path = $file]
        #[allow(dead_code, unreachable_pub, reason = "the test runs a part of the sample")]
        mod $name;
    )*};
}
samples! {
    "../../../examples/cnn.rs" cnn
    "../../../examples/gan.rs" gan
    "../../../examples/spirals.rs" spirals
    "../../../examples/vae.rs" vae
}

#[test]
fn spirals() {
    let outcome = spirals::train(&Device::cpu(), 60).unwrap();
    assert!(outcome.accuracy >= 0.97, "{}", outcome.accuracy);
}

#[test]
fn gan() {
    let outcome = gan::train(&Device::cpu(), 3000).unwrap();
    assert!(outcome.in_a_heap >= 0.8 && outcome.least >= 0.05, "{} {}", outcome.in_a_heap, outcome.least);
}

#[test]
fn cnn() {
    let outcome = cnn::train(&Device::cpu(), 20).unwrap();
    assert!(outcome.accuracy >= 0.97, "{}", outcome.accuracy);
}

#[test]
fn vae() {
    let outcome = vae::train(&Device::cpu(), 30).unwrap();
    assert!(outcome.like_digits >= 0.8 && outcome.different >= 8, "{}", outcome.like_digits);
}
