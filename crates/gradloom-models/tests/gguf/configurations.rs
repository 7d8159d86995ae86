//! Models that are small, unusual, or not supported.

use crate::builder::{Builder, quantized};
use crate::refused;
use gradloom_core::error::Result;
use gradloom_models::gguf::{Architecture, Gguf, Layout, TensorType, dequantize};
use serde_json::{Value, json};

/// Returns the metadata of a GPT-2 with one layer, without any tensors.
pub(crate) fn gpt2() -> Builder {
    Builder::new()
        .string("general.architecture", "gpt2")
        .u32("gpt2.context_length", 4)
        .u32("gpt2.embedding_length", 32)
        .u32("gpt2.feed_forward_length", 8)
        .u32("gpt2.block_count", 1)
        .u32("gpt2.attention.head_count", 2)
        .f32("gpt2.attention.layer_norm_epsilon", 1e-5)
}

/// Returns a Llama with `heads` heads of width 4.
pub(crate) fn llama(heads: u32) -> Builder {
    Builder::new()
        .string("general.architecture", "llama")
        .u32("llama.context_length", 4)
        .u32("llama.embedding_length", 4 * heads)
        .u32("llama.feed_forward_length", 8)
        .u32("llama.block_count", 1)
        .u32("llama.attention.head_count", heads)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-6)
        .floats("token_embd.weight", &[8, 3], &[0.5; 24])
}

fn config(builder: &Builder) -> Result<Value> {
    Gguf::from_bytes(builder.build())?.hugging_face_config()
}

/// Returns the error message for a file without a valid configuration, stripped of the file's name.
#[track_caller]
fn fault(builder: &Builder) -> String {
    refused(config(builder)).strip_prefix("the file in memory: ").unwrap().to_string()
}

/// Returns 2 x 32 distinct elements.
fn elements() -> Vec<f32> {
    (0..64).map(|i| (i as f32 * 1.7).sin()).collect()
}

#[test]
fn an_output_layer_that_is_the_embedding_is_left_out() {
    let x = elements();
    let q8 = quantized(TensorType::Q8_0, &x);
    let others: Vec<f32> = x.iter().rev().copied().collect();
    let q4 = |x: &[f32]| quantized(TensorType::Q4_0, x);
    let embedding = || gpt2().tensor("token_embd.weight", &[32, 2], TensorType::Q8_0, &q8);
    let cases = [
        (embedding(), true),
        (embedding().tensor("output.weight", &[32, 2], TensorType::Q8_0, &q8), true),
        (embedding().tensor("output.weight", &[32, 2], TensorType::Q4_0, &q4(&x)), true),
        (embedding().tensor("output.weight", &[32, 2], TensorType::Q4_0, &q4(&others)), false),
        (embedding().floats("output.weight", &[32, 2], &others), false),
        (embedding().floats("output.weight", &[32], &others[..32]), false),
    ];
    for (builder, tied) in cases {
        let file = Gguf::from_bytes(builder.build()).unwrap();
        assert_eq!(file.hugging_face_config().unwrap()["tie_word_embeddings"], tied);
        let weights = file.weights().unwrap();
        assert_eq!(weights.get("lm_head.weight").is_none(), tied);
        let wte = weights.get("wte.weight").unwrap().to_f32().unwrap();
        assert_eq!(wte, dequantize(TensorType::Q8_0, &q8).unwrap());
    }
}

#[test]
fn a_llama_without_an_output_layer_is_tied() {
    let found = config(&llama(2)).unwrap();
    assert_eq!((&found["tie_word_embeddings"], &found["vocab_size"]), (&json!(true), &json!(3)));
    let same = llama(2).floats("output.weight", &[8, 3], &[0.5; 24]);
    assert_eq!(config(&same).unwrap()["tie_word_embeddings"], false);
}

#[test]
fn what_a_llama_does_not_say_has_defaults() {
    let found = config(&llama(2)).unwrap();
    assert_eq!((&found["num_key_value_heads"], &found["head_dim"]), (&json!(2), &json!(4)));
    assert_eq!((&found["rope_theta"], &found["rope_scaling"]), (&json!(10_000.0), &Value::Null));
    assert_eq!((&found["rms_norm_eps"], &found["bos_token_id"]), (&json!(1e-6), &Value::Null));
    let wide = llama(2).u32("llama.attention.key_length", 6).u32("llama.attention.value_length", 6);
    assert_eq!(config(&wide).unwrap()["head_dim"], 6);
    let biased = llama(2).floats("blk.0.attn_q.bias", &[8], &[0.0; 8]);
    assert_eq!(config(&biased).unwrap()["attention_bias"], true);
}

#[test]
fn scaling_of_positions() {
    let scaled = |kind: &str| llama(2).string("llama.rope.scaling.type", kind);
    let factor = |builder: Builder| builder.f32("llama.rope.scaling.factor", 2.5);
    let found = config(&factor(scaled("linear"))).unwrap();
    assert_eq!(found["rope_scaling"], json!({ "rope_type": "linear", "factor": 2.5 }));
    assert_eq!(config(&factor(llama(2))).unwrap()["rope_scaling"], found["rope_scaling"]);
    let old =
        |factor| config(&llama(2).f32("llama.rope.scale_linear", factor)).unwrap()["rope_scaling"].clone();
    assert_eq!((&old(2.5), &old(1.0)), (&found["rope_scaling"], &Value::Null));
    assert_eq!(config(&scaled("none")).unwrap()["rope_scaling"], Value::Null);
    let yarn = factor(scaled("yarn")).u32("llama.rope.scaling.original_context_length", 64);
    let yarn = yarn.f32("llama.rope.scaling.yarn_beta_fast", 16.0);
    let expected = json!({
        "rope_type": "yarn",
        "factor": 2.5,
        "original_max_position_embeddings": 64,
        "beta_fast": 16.0,
    });
    assert_eq!(config(&yarn).unwrap()["rope_scaling"], expected);

    assert!(fault(&scaled("linear")).ends_with("has no `llama.rope.scaling.factor`"));
    assert_eq!(fault(&scaled("longrope")), "scaling of positions by `longrope` is not read");
    let attention = yarn.f32("llama.rope.scaling.attn_factor", 1.5);
    assert_eq!(fault(&attention), "`llama.rope.scaling.attn_factor` is not read");
}

#[test]
fn divisors_of_speeds() {
    let with = |factors: &[f32]| llama(2).floats("rope_freqs.weight", &[factors.len() as u64], factors);
    // Heads of width 4 have wavelengths of 2 pi and 200 pi, which are both short.
    assert_eq!(config(&with(&[1.0, 1.0])).unwrap()["rope_scaling"], Value::Null);
    let expected = "the factors in `rope_freqs.weight` are not those of Llama 3's scaling";
    for factors in [&[1.0, 8.0][..], &[1.0], &[1.0, f32::NAN], &[1.0, f32::INFINITY], &[]] {
        assert_eq!(fault(&with(factors)), expected, "{factors:?}");
    }
    let both = with(&[1.0, 1.0]).string("llama.rope.scaling.type", "linear");
    assert_eq!(fault(&both), "the model has `rope_freqs.weight` and scaling by linear");
}

#[test]
fn models_that_are_not_read_are_named() {
    let other = Builder::new().string("general.architecture", "qwen3");
    let expected = "the model's architecture is `qwen3`, of which none but gpt2 and llama are read";
    assert_eq!(fault(&other), expected);
    assert!(fault(&Builder::new()).ends_with("the metadata has no `general.architecture`"));
    let split = llama(2).entry("split.count", 2, &[3, 0]);
    assert_eq!(fault(&split), "the file has one part of 3 of a model");
    assert!(config(&llama(2).entry("split.count", 2, &[1, 0])).is_ok());
    let experts = llama(2).u32("llama.expert_count", 8);
    assert_eq!(fault(&experts), "the model is a mixture of 8 experts, which is not read");
    let partial = llama(2).u32("llama.rope.dimension_count", 2);
    assert!(fault(&partial).starts_with("`llama.rope.dimension_count` is 2, and heads have 4 elements"));
}

#[test]
fn sizes_that_make_no_model() {
    let heads = |heads| llama(heads);
    assert!(fault(&heads(0)).ends_with("the metadata makes `llama.embedding_length` 0"));
    let none = llama(2).u32("llama.attention.head_count_kv", 0);
    assert!(fault(&none).ends_with("the metadata makes `llama.attention.head_count_kv` 0"));
    for theta in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let message = fault(&llama(2).f32("llama.rope.freq_base", theta));
        assert!(message.ends_with(&format!("the metadata `llama.rope.freq_base` is {theta}")), "{message}");
    }
    let per_layer = llama(2).entry("llama.attention.head_count_kv", 9, &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(fault(&per_layer).contains("is [], and layers of several sizes are not read"));
    assert!(fault(&gpt2()).ends_with("there is no matrix `token_embd.weight`"));
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let weights = |builder: Builder| refused(Gguf::from_bytes(builder.build()).unwrap().weights());
    let cases = [
        (
            llama(2).floats("blk.0.attn_q.weight", &[1, 6], &[0.0; 6]),
            "`blk.0.attn_q.weight` is F32[6, 1], which does not fit 2 heads",
        ),
        (
            llama(2).floats("blk.0.attn_k.weight", &[1, 7], &[0.0; 7]),
            "`blk.0.attn_k.weight` is F32[7, 1], which does not fit 2 heads",
        ),
        (
            llama(2).floats("blk.0.ffn_gate_exps.weight", &[1], &[0.0]),
            "`blk.0.ffn_gate_exps.weight` is no tensor of `llama`",
        ),
        (gpt2().floats("blk.00.ffn_up.bias", &[1], &[0.0]), "`blk.00.ffn_up.bias` is no tensor of `gpt2`"),
        (
            gpt2().floats("blk.0.ffn_up.weight", &[1], &[0.0]),
            "`blk.0.ffn_up.weight` is F32[1], which is no matrix",
        ),
        (
            gpt2().tensor("token_embd.weight", &[256, 1], TensorType::IQ1_S, &[0; 50]).floats(
                "output.weight",
                &[256, 1],
                &[0.5; 256],
            ),
            "`token_embd.weight` has elements of the type IQ1_S, which are not read",
        ),
    ];
    for (builder, expected) in cases {
        assert_eq!(weights(builder), format!("the file in memory: {expected}"));
    }
}

/// In a tensor without elements, the other dimension is arbitrary.
#[test]
fn tensors_without_elements() {
    let huge = 1 << 60;
    let gpt2 = gpt2().floats("blk.0.ffn_up.weight", &[0, huge], &[]).floats(
        "blk.0.ffn_down.weight",
        &[huge, 0],
        &[],
    );
    let gpt2 = gpt2.floats("output.weight", &[0, huge], &[]).info("token_embd.weight", &[0, huge], 1, 0);
    let weights = Gguf::from_bytes(gpt2.build()).unwrap().weights().unwrap();
    assert_eq!(weights.get("h.0.mlp.c_fc.weight").unwrap().shape, [0, huge as usize]);
    assert_eq!(weights.get("h.0.mlp.c_proj.weight").unwrap().shape, [huge as usize, 0]);
    let llama = llama(1 << 20).floats("blk.0.attn_q.weight", &[huge, 0], &[]);
    let weights = Gguf::from_bytes(llama.build()).unwrap().weights().unwrap();
    assert_eq!(weights.get("model.layers.0.self_attn.q_proj.weight").unwrap().shape, [0, huge as usize]);
}

#[test]
fn rows_of_heads_are_sorted_by_halves() {
    // Two heads of four rows in llama.cpp's order: pair after pair.
    let rows = [0.0, 2.0, 1.0, 3.0, 10.0, 12.0, 11.0, 13.0];
    let file =
        llama(2).floats("blk.0.attn_q.weight", &[1, 8], &rows).floats("blk.0.attn_q.bias", &[8], &rows);
    let weights = Gguf::from_bytes(file.build()).unwrap().weights().unwrap();
    for name in ["weight", "bias"] {
        let found =
            weights.get(&format!("model.layers.0.self_attn.q_proj.{name}")).unwrap().to_f32().unwrap();
        assert_eq!(found, [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]);
    }
}

#[test]
fn names_at_hugging_face() {
    let gpt2 = |name| Architecture::Gpt2.hugging_face_name(name);
    let llama = |name| Architecture::Llama.hugging_face_name(name);
    let is = |name: &str, layout| Some((name.to_string(), layout));
    assert_eq!(gpt2("blk.11.attn_qkv.weight"), is("h.11.attn.c_attn.weight", Layout::Transposed));
    assert_eq!(gpt2("blk.11.attn_qkv.bias"), is("h.11.attn.c_attn.bias", Layout::Same));
    assert_eq!(llama("blk.0.attn_k.weight"), is("model.layers.0.self_attn.k_proj.weight", Layout::KeyPairs));
    for none in
        ["", "blk", "blk.0", "blk..ffn_up.weight", "blk.+1.ffn_up.weight", "blk.0.ffn_up", "wte.weight"]
    {
        assert_eq!((gpt2(none), llama(none)), (None, None), "{none}");
    }
    assert_eq!((gpt2("blk.0.ffn_gate.weight"), llama("position_embd.weight")), (None, None));
}

#[test]
fn vocabularies_that_do_not_fit_together() {
    let tokens = || {
        Builder::new().string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", &["a", "b"])
    };
    let vocabulary = |builder: Builder| Gguf::from_bytes(builder.build()).unwrap().vocabulary();
    assert_eq!(vocabulary(tokens()).unwrap().tokens, ["a", "b"]);
    let numbers = |numbers: &[u32]| {
        let bytes: Vec<Vec<u8>> = numbers.iter().map(|number| number.to_le_bytes().to_vec()).collect();
        tokens().entry("tokenizer.ggml.token_type", 9, &crate::builder::array(5, &bytes))
    };
    assert!(vocabulary(numbers(&[1, 6])).is_ok());
    let undefined = vocabulary(numbers(&[0, 7])).unwrap();
    assert!(undefined.special.is_empty() && undefined.added.is_empty(), "llama.cpp reads them as none");
    // An id outside the vocabulary, such as -1 or its bit pattern, is treated as absent.
    for (id, found) in [(1u32, Some("b")), (2, None), (u32::MAX, None)] {
        for ty in [4, 5] {
            let builder = tokens().entry("tokenizer.ggml.padding_token_id", ty, &id.to_le_bytes());
            assert_eq!(vocabulary(builder).unwrap().roles.pad.as_deref(), found);
        }
    }
    let cases = [
        (numbers(&[1]), "`tokenizer.ggml.token_type` has 1 elements for 2 tokens"),
        (Builder::new(), "the metadata has no `tokenizer.ggml.tokens`"),
    ];
    for (builder, expected) in cases {
        let message = refused(vocabulary(builder));
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn sizes_may_be_given_for_each_layer() {
    let sizes = |sizes: &[u32]| {
        let sizes: Vec<Vec<u8>> = sizes.iter().map(|size| size.to_le_bytes().to_vec()).collect();
        let array = crate::builder::array(4, &sizes);
        Builder::new()
            .string("general.architecture", "llama")
            .u32("llama.context_length", 4)
            .u32("llama.embedding_length", 8)
            .entry("llama.feed_forward_length", 9, &array)
            .u32("llama.block_count", 2)
            .entry("llama.attention.head_count", 9, &array)
            .entry("llama.attention.head_count_kv", 9, &array)
            .entry(
                "llama.attention.value_length",
                9,
                &crate::builder::array(4, &[4u32, 4].map(|n| n.to_le_bytes().into())),
            )
            .f32("llama.attention.layer_norm_rms_epsilon", 1e-6)
            .floats("token_embd.weight", &[8, 3], &[0.5; 24])
    };
    let found = config(&sizes(&[2, 2])).unwrap();
    for key in ["num_attention_heads", "num_key_value_heads", "intermediate_size"] {
        assert_eq!(found[key], 2, "{key}");
    }
    for (given, shown) in [(&[2, 1][..], "[2, 1]"), (&[], "[]")] {
        let message = fault(&sizes(given));
        let expected =
            format!("`llama.attention.head_count` is {shown}, and layers of several sizes are not read");
        assert_eq!(message, expected);
    }
}
