//! Tests weights in blocks as users have them: a frozen base with a trained adapter.

use gradloom::ir::{BlockFormat, DType, Type};
use gradloom::prelude::*;

const FORMAT: BlockFormat = BlockFormat::Q8_0;

/// Linear layer with a weight `[2, 64]` in blocks, and an adapter on its input.
#[derive(Module)]
struct Adapted {
    base: Param,
    scale: Param,
}

impl Adapted {
    fn new() -> Self {
        Self {
            base: Param::of_type(Type::new(DType::U8, [2, FORMAT.bytes_of(64).unwrap()]), Init::Zeros),
            scale: Param::new([64], Init::Ones),
        }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        (x * &self.scale).matmul(self.base.tensor().dequantize(FORMAT).transpose(0, 1))
    }
}

/// Returns blocks with a scale of 1/4, and the numbers that they represent.
fn weight() -> (Vec<u8>, Vec<f32>) {
    let mut bytes: Vec<u8> = (0..4 * 34).map(|i| (i * 71 % 256) as u8).collect();
    for block in bytes.chunks_exact_mut(34) {
        block[..2].copy_from_slice(&0x3400_u16.to_le_bytes());
    }
    let numbers = bytes.chunks_exact(34).flat_map(|block| FORMAT.decode(block)).collect();
    (bytes, numbers)
}

#[test]
fn an_adapter_trains_over_a_base_in_blocks() {
    let (bytes, w) = weight();
    let x: Vec<f32> = (0..3 * 64).map(|i| (i % 7) as f32 / 7.0 - 0.4).collect();
    let mut train = Trainer::new(Adapted::new())
        .inputs([f32("x", [3, 64])])
        .loss(|m, [x]| m.forward(x).sum())
        .optimizer(Sgd::new(1.0))
        .compile(&Device::cpu())
        .unwrap();
    train.session().set("base", &bytes).unwrap();
    let y: Vec<f64> = (0..6)
        .map(|i| (0..64).map(|p| f64::from(x[i / 2 * 64 + p]) * f64::from(w[i % 2 * 64 + p])).sum())
        .collect();
    let loss = train.step([&x]).unwrap().loss().unwrap();
    assert!((f64::from(loss) - y.iter().sum::<f64>()).abs() < 1e-2, "{loss} {y:?}");
    // One step of plain gradient descent: the scale minus its gradient, the sum of x·w over rows and outputs.
    let scale = train.session().get("scale").unwrap();
    for (p, &scale) in scale.iter().enumerate() {
        let gradient: f32 = (0..6).map(|i| x[i / 2 * 64 + p] * w[i % 2 * 64 + p]).sum();
        assert!((scale - (1.0 - gradient)).abs() < 1e-4 * (1.0 + gradient.abs()), "{p}: {scale} {gradient}");
    }
    assert_eq!(train.store().read("base").unwrap(), bytes);
}
