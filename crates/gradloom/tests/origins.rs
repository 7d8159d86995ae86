//! Tests the origins of ops: no op of a model or layer has an origin in the standard library, and the origin
//! of a call is the line in the user's file, even if a method is passed as a path.

// Pass paths even where a call would be shorter, as users do.
#![allow(clippy::unnecessary_map_on_constructor)]

use gradloom::ir::Graph;
use gradloom::nn::{CausalSelfAttention, Function, Layer, attend_to_new};
use gradloom::prelude::*;
use gradloom::trace::{Input, trace};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_models::language_model::LanguageModel;
use gradloom_models::llama::{Llama, LlamaConfig, Rotary, RotaryScaling};

/// Returns the distinct files in the origins of a graph.
fn files(graph: &Graph) -> Vec<String> {
    let mut files: Vec<String> = graph.origins.iter().map(|(_, origin)| origin.file.clone()).collect();
    files.sort();
    files.dedup();
    files.iter().map(|file| file.replace('\\', "/")).collect()
}

/// Traces a model with and without training, and returns the files in the origins of its ops.
#[track_caller]
fn traced(model: &dyn Module, inputs: &[Input], f: impl Fn(&[Tensor]) -> Tensor) -> Vec<String> {
    let both = [false, true].map(|training| {
        let traced = trace(model, inputs, training, |x| f(x), |y| vec![y]).unwrap_or_else(|e| panic!("{e}"));
        files(&traced.graph)
    });
    let [forward, training] = both;
    let mut all = [forward, training].concat();
    all.sort();
    all.dedup();
    assert!(!all.is_empty());
    for file in &all {
        let of_library =
            file.starts_with("/rustc/") || file.contains("/library/") || file.contains("function.rs");
        assert!(!of_library, "an op stands in {file}");
        assert!(!file.contains("gradloom-core/src"), "an op stands in {file}");
    }
    all
}

/// Like `traced`, but checks that all origins are in this file.
#[track_caller]
fn stands_here(model: &dyn Module, inputs: &[Input], f: impl Fn(&[Tensor]) -> Tensor) {
    let files = traced(model, inputs, f);
    assert_eq!(files, [file!().replace('\\', "/")]);
}

#[test]
fn language_models_stand_in_their_own_files() {
    let gpt2 = Gpt2Config {
        vocabulary: 11,
        context: 8,
        width: 8,
        heads: 2,
        layers: 2,
        dropout: 0.1,
        ..Gpt2Config::default()
    };
    let inputs = [i32("ids", [2, 5])];
    let mut all = Vec::new();
    for blocks in [false, true] {
        let model = Gpt2::new(&gpt2).unwrap();
        let model = if blocks { model.checkpoint_blocks() } else { model };
        all.extend(traced(&model, &inputs, |x| model.loss(x[0], x[0])));
        all.extend(traced(&model, &inputs, |x| LanguageModel::forward(&model, x[0])));
    }
    let llama = LlamaConfig {
        vocabulary: 11,
        context: 8,
        width: 8,
        heads: 2,
        key_heads: 1,
        depth: 4,
        layers: 2,
        mlp_width: 12,
        window: None,
        epsilon: 1e-5,
        rotary: Rotary { base: 10_000.0, scaling: RotaryScaling::None },
        tied: false,
        attention_bias: false,
        mlp_bias: false,
    };
    let model = Llama::new(&llama).unwrap();
    all.extend(traced(&model, &inputs, |x| model.loss(x[0], x[0])));
    all.extend(traced(&model, &inputs, |x| LanguageModel::forward(&model, x[0])));
    let strange =
        all.iter().find(|file| !file.contains("gradloom-models/src") && !file.ends_with("origins.rs"));
    assert_eq!(strange, None);
}

#[test]
fn layers_stand_at_their_callers() {
    let (rows, image, line) = (f32("x", [2, 6, 8]), f32("x", [2, 4, 8, 8]), f32("x", [2, 4, 8]));
    macro_rules! layers {
        ($($input:ident: $layer:expr;)*) => {$({
            let layer = $layer;
            stands_here(&layer, std::slice::from_ref(&$input), |x| layer.forward(x[0]));
            let row = Sequential::new().layer(layer);
            stands_here(&row, std::slice::from_ref(&$input), |x| row.forward(x[0]));
            let nested = Sequential::new().layer(row);
            stands_here(&nested, std::slice::from_ref(&$input), |x| nested.forward(x[0]));
        })*};
    }
    layers! {
        rows: Linear::new(8, 3);
        rows: Dropout::new(0.5);
        rows: LayerNorm::new(8);
        rows: RmsNorm::new(8);
        rows: Flatten;
        rows: CausalSelfAttention::new(8, 2);
        rows: TransformerBlock::new(8, 2).causal().dropout(0.1);
        rows: TransformerBlock::new(8, 2).norm_last();
        rows: Lstm::new(8, 3);
        rows: Gru::new(8, 3);
        line: Conv1d::new(4, 2, 3, ConvOptions::new());
        line: ConvTranspose1d::new(4, 2, 3, ConvOptions::new().stride(2));
        image: Conv2d::new(4, 2, 3, ConvOptions::new());
        image: ConvTranspose2d::new(4, 2, 3, ConvOptions::new().stride(2));
        image: MaxPool2d::new(2);
        image: AvgPool2d::new(2);
        image: AdaptiveAvgPool2d::new(3);
        image: BatchNorm::new(4);
        image: GroupNorm::new(2, 4);
    }
    let attention = MultiHeadAttention::new(8, 2);
    stands_here(&attention, std::slice::from_ref(&rows), |x| {
        attention.forward(x[0], AttentionOptions::causal())
    });
    let cache = KeyValueCache::new(2, 2, 9, 4);
    let length = || full(DType::I32, [], 3.0);
    for time in [1, 5] {
        let heads = [f32("x", [2, 2, time, 4])];
        stands_here(&cache, &heads, |x| cache.extend(x[0], x[0], x[0], length()));
        stands_here(&(), &heads, |x| {
            let earlier = x[0].attention_with_log_sum(x[0], x[0], AttentionOptions::causal());
            attend_to_new(earlier, [x[0]; 3], None)
        });
    }
    let table = Embedding::new(5, 3);
    stands_here(&table, &[i32("ids", [4])], |x| table.forward(x[0]));
    let (lstm, gru) = (Lstm::new(8, 3), Gru::new(8, 3));
    let zeros = || full(DType::F32, [2, 3], 0.0);
    stands_here(&lstm, std::slice::from_ref(&rows), |x| lstm.run(x[0], (zeros(), zeros())).0);
    stands_here(&gru, &[rows], |x| gru.run(x[0], zeros()).0);
}

#[test]
fn methods_that_are_passed_as_paths_stand_at_a_call_of_the_users() {
    let inputs = [f32("x", [4, 3])];
    let line = |f: fn(Tensor) -> Tensor| {
        let traced = trace(&(), &inputs, true, |x| f(x[0]), |y| vec![y]).unwrap();
        let lines: Vec<u32> = traced.graph.origins.iter().map(|(_, origin)| origin.line).collect();
        assert_eq!(files(&traced.graph), [file!().replace('\\', "/")]);
        lines
    };
    // Only the origin of the trace is known for these ops.
    let at = line!() - 6;
    assert_eq!(line(|x| Some(x).map(Tensor::mean).unwrap()), [at]);
    assert_eq!(line(|x| [x].map(Tensor::softplus)[0]), [at]);
    assert_eq!(
        line(|x| vec![x].into_iter().map(Tensor::relu).fold(x, |a, b| if a.rank() > 9 { a } else { b })),
        [at]
    );
    assert_eq!(
        line(|x| {
            let f: Box<dyn Fn(Tensor) -> Tensor> = Box::new(Tensor::gelu);
            f(x)
        }),
        [at]
    );
    assert_eq!(
        line(|x| {
            let f: fn(Tensor) -> Tensor = Tensor::exp;
            f(x)
        }),
        [at]
    );
    // The origin of a sequence's layers is the call of the sequence.
    let row = Sequential::new().function(Tensor::mean).function(Tensor::sqrt).function(|x| x);
    let traced = trace(&row, &inputs, true, |x| row.forward(x[0]), |y| vec![y]).unwrap();
    let lines: Vec<u32> = traced.graph.origins.iter().map(|(_, origin)| origin.line).collect();
    assert_eq!(lines, [line!() - 2]);
    let function = Function(Tensor::softplus);
    stands_here(&function, &inputs, |x| function.apply(x[0]));
    // The origin in a block is the call that creates the block.
    stands_here(&(), &inputs, |x| {
        let y = gradloom::trace::checkpoint(|| Some(x[0]).map(Tensor::exp).unwrap());
        let (last, ()) = gradloom::trace::scan(3, y, (), |y, ()| (Some(y).map(Tensor::sin).unwrap(), ()));
        last
    });
}

#[test]
fn mistakes_behind_paths_are_shown() {
    let error = Trainer::new(Sequential::new().layer(Linear::new(3, 1)).function(Tensor::diagonal))
        .inputs([f32("x", [4, 3])])
        .loss(|m, [x]| m.forward(x).mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null())
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.origin().map(|origin| (&origin.file[..], origin.line)), Some((file!(), line!() - 5)));
    assert!(text.contains("`diagonal` of [4, 1]") && text.contains("m.forward(x).mean()"), "{text}");
    let error = Trainer::new(Linear::new(3, 1))
        .inputs([f32("x", [4, 3])])
        .loss(|m, [x]| Some(m.forward(x)).map(Tensor::diagonal).unwrap().mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null())
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.origin().map(|origin| (&origin.file[..], origin.line)), Some((file!(), line!() - 5)));
    assert!(text.contains(".map(Tensor::diagonal)"), "{text}");
}
