//! Damaged files: they either load or return an error, without a panic, and memory use is bounded by the
//! file's size.

use crate::builder::{Builder, array, quantized, text};
use crate::configurations::{gpt2, llama};
use gradloom_models::gguf::{Gguf, TensorType};
use gradloom_testing::Random;
use gradloom_testing::memory::{Counting, measured};
use gradloom_testing::mutate::mutated;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 10_000;

fn with_tokens(builder: Builder) -> Builder {
    builder
        .string("tokenizer.ggml.model", "gpt2")
        .strings("tokenizer.ggml.tokens", &["a", "b", "ab"])
        .strings("tokenizer.ggml.merges", &["a b"])
        .u32("tokenizer.ggml.eos_token_id", 2)
        .entry("nested", 9, &array(9, &[array(0, &[vec![1], vec![2]]), array(8, &[text("x")])]))
}

/// Returns files of both architectures, covering all layouts of tensors.
fn files() -> [Vec<u8>; 2] {
    let q8 = quantized(TensorType::Q8_0, &[0.5; 64]);
    let gpt2 = with_tokens(gpt2())
        .tensor("token_embd.weight", &[32, 2], TensorType::Q8_0, &q8)
        .floats("output.weight", &[32, 2], &[0.5; 64])
        .floats("output_norm.bias", &[4], &[0.5; 4])
        .tensor("blk.0.ffn_up.weight", &[32, 1], TensorType::Q4_0, &[7; 18]);
    let llama = with_tokens(llama(2))
        .floats("rope_freqs.weight", &[2], &[1.0; 2])
        .tensor("blk.0.ffn_down.weight", &[256, 1], TensorType::Q4_K, &[7; 144])
        .tensor("blk.0.attn_q.weight", &[2, 8], TensorType::F16, &[60; 32]);
    [gpt2.build(), llama.build()]
}

/// Reads everything in a file, and returns the number of the three conversions that succeeded.
fn used(bytes: &[u8]) -> Option<usize> {
    let file = Gguf::from_bytes(bytes).inspect_err(|error| assert!(error.remedies().count() > 0)).ok()?;
    for key in file.keys() {
        assert!(file.metadata(key).is_some(), "{key}");
    }
    for tensor in file.tensors() {
        let (elements, size) = tensor.ty.block();
        assert_eq!(tensor.shape.iter().product::<usize>() / elements * size, tensor.bytes.len());
    }
    let weights = file.weights().map(|weights| weights.iter().count());
    Some(
        [file.hugging_face_config().is_ok(), file.vocabulary().is_ok(), weights.is_ok()]
            .into_iter()
            .map(usize::from)
            .sum(),
    )
}

#[test]
fn damaged_files() {
    let mut random = Random(8);
    let sound = files();
    for bytes in &sound {
        assert_eq!(used(bytes), Some(3));
    }
    let (mut whole, mut opened, mut refused) = (0, 0, 0);
    for round in 0..ROUNDS {
        let bytes = mutated(&sound[round % 2], usize::MAX, &mut random);
        let (result, taken) = measured(|| used(&bytes));
        // Allow for four bits that become 32, in the result and in intermediate buffers, and for messages of
        // constant size.
        let is_bounded =
            taken.largest <= 8 * bytes.len() + (16 << 10) && taken.most <= 32 * bytes.len() + (16 << 10);
        assert!(is_bounded, "{taken:?} for a file of {}, round {round}", bytes.len());
        match result {
            Some(3) => whole += 1,
            Some(_) => opened += 1,
            None => refused += 1,
        }
    }
    println!("{whole} whole, {opened} in part, {refused} refused");
    assert!(
        whole * 50 > ROUNDS && opened * 100 > ROUNDS && refused * 3 > ROUNDS,
        "{whole} {opened} {refused}"
    );
}
