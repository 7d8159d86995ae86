//! Models with weights of reduced precision compute the same as models with the decoded weights in f32.

#[path = "common/decoder.rs"]
mod decoder;

use decoder::Decoder;
use gradloom::CpuDevice as _;
use gradloom_core::ir::{BLOCK, BlockFormat, DType};
use gradloom_core::nn::{Module, Stored, Visitor, store_matrices};
use gradloom_core::trace::i32;
use gradloom_models::any_model::AnyConfig;
use gradloom_models::any_model::AnyModel;
use gradloom_models::gpt2::Gpt2Config;
use gradloom_models::hugging_face::{Folder, Saving, load, save, save_stored, stored_name};
use gradloom_models::language_model::LanguageModel;
use gradloom_models::llama::{LlamaConfig, Rotary, RotaryScaling};
use gradloom_runtime::files::Weights;
use gradloom_runtime::{Device, Session};

fn configs() -> [AnyConfig; 2] {
    let gpt2 =
        Gpt2Config { vocabulary: 61, context: 32, width: 64, heads: 4, layers: 2, ..Gpt2Config::default() };
    let llama = LlamaConfig {
        vocabulary: 61,
        context: 32,
        width: 64,
        mlp_width: 96,
        layers: 2,
        heads: 4,
        key_heads: 2,
        depth: 16,
        window: None,
        epsilon: 1e-6,
        rotary: Rotary { base: 10_000.0, scaling: RotaryScaling::None },
        tied: false,
        attention_bias: false,
        mlp_bias: false,
    };
    [AnyConfig::Gpt2(gpt2), AnyConfig::Llama(llama)]
}

fn logits(session: &Session<AnyModel>, ids: &[i32]) -> Vec<f32> {
    session
        .infer([i32("ids", [1, ids.len()])], |model, [ids]| model.forward(ids))
        .unwrap()
        .run([ids])
        .unwrap()
}

/// Returns an f32 session with the values that a session's matrices have after rounding.
fn rounded(session: &Session<AnyModel>, config: &AnyConfig, stored: Stored) -> Session<AnyModel> {
    let copy = Session::new(config.build().unwrap(), &Device::cpu(), 0).unwrap();
    copy.materialize().unwrap();
    session.model().visit(&mut Visitor::new(&mut |name, param| {
        let mut elements = session.get(name).unwrap();
        if let &[rows, columns] = &param.shape()[..] {
            match stored {
                Stored::F16 | Stored::BF16 => {
                    let dtype = if stored == Stored::F16 { DType::F16 } else { DType::BF16 };
                    elements.iter_mut().for_each(|x| *x = dtype.of_narrow_bits(dtype.narrow_bits(*x)));
                }
                Stored::Blocks(format) => {
                    let by_columns = param.is_transposed_in_torch();
                    let [lines, length] = if by_columns { [columns, rows] } else { [rows, columns] };
                    for line in 0..lines {
                        for start in (0..length).step_by(BLOCK) {
                            let at = |i: usize| match by_columns {
                                true => (start + i) * columns + line,
                                false => line * columns + start + i,
                            };
                            let mut block = Vec::new();
                            format.encode(&std::array::from_fn(|i| elements[at(i)]), &mut block);
                            for (i, x) in format.decode(&block).into_iter().enumerate() {
                                elements[at(i)] = x;
                            }
                        }
                    }
                }
            }
        }
        copy.set(name, &elements).unwrap();
    }));
    copy
}

#[test]
fn logits_are_those_of_the_rounded_weights() {
    let ids: Vec<i32> = (0..20).map(|i| i * 7 % 61).collect();
    for config in configs() {
        let original = Session::new(config.build().unwrap(), &Device::cpu(), 3).unwrap();
        let place = tempfile::tempdir().unwrap();
        save(&original, place.path(), &Saving::default()).unwrap();
        let weights = Folder::open(place.path()).unwrap();
        for stored in
            [Stored::BF16, Stored::F16, Stored::Blocks(BlockFormat::Q8_0), Stored::Blocks(BlockFormat::Q4_0)]
        {
            let model = config.build().unwrap();
            let names = store_matrices(&model, stored).unwrap();
            assert!(names.len() > 8, "{names:?}");
            let session = Session::new(model, &Device::cpu(), 0).unwrap();
            load(&session, weights.weights()).unwrap();
            let want = logits(&rounded(&original, &config, stored), &ids);
            let got = logits(&session, &ids);
            let difference = want.iter().zip(&got).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(difference < 1e-4, "{stored:?}: {difference}");
            // Decode token by token too, so that products have a single row.
            let mut decoder = Decoder::new(&session, "text").unwrap();
            let last = ids.iter().map(|&id| decoder.feed(&[id]).unwrap()).last().unwrap();
            let want = &want[want.len() - 61..];
            let difference = want.iter().zip(&last).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(difference < 1e-4, "{stored:?}, one by one: {difference}");
        }
    }
}

#[test]
fn what_is_kept_in_blocks_is_saved_and_loaded_as_it_is() {
    let config = &configs()[0];
    let make = || {
        let model = config.build().unwrap();
        store_matrices(&model, Stored::Blocks(BlockFormat::Q8_0)).unwrap();
        Session::new(model, &Device::cpu(), 0).unwrap()
    };
    let original = Session::new(config.build().unwrap(), &Device::cpu(), 3).unwrap();
    let place = tempfile::tempdir().unwrap();
    save(&original, place.path(), &Saving::default()).unwrap();
    let (first, second) = (make(), make());
    load(&first, &Weights::open(place.path()).unwrap()).unwrap();
    let file = place.path().join("blocks.safetensors");
    first.save(&file).unwrap();
    second.load(&file).unwrap();
    let ids = [5, 3, 60];
    assert_eq!(logits(&first, &ids), logits(&second, &ids));
}

const FORMS: [Stored; 4] =
    [Stored::BF16, Stored::F16, Stored::Blocks(BlockFormat::Q8_0), Stored::Blocks(BlockFormat::Q4_0)];

#[test]
fn folders_in_fewer_bits_are_written_and_read() {
    let ids: Vec<i32> = (0..20).map(|i| i * 7 % 61).collect();
    for config in configs() {
        let original = Session::new(config.build().unwrap(), &Device::cpu(), 3).unwrap();
        let (whole, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        save(&original, whole.path(), &Saving::default()).unwrap();
        let whole = Folder::open(whole.path()).unwrap();
        assert_eq!(whole.stored(), None);
        // Each save replaces the files of the previous one, which are several shards at first.
        save(&original, place.path(), &Saving { shard_bytes: 1, ..Saving::default() }).unwrap();
        for stored in FORMS {
            let kept = whole.session_stored(&Device::cpu(), Some(stored)).unwrap();
            let extra = [("eos_token_id".to_string(), 7.into())].into_iter().collect();
            save_stored(&kept, place.path(), &extra).unwrap();
            let folder = Folder::open(place.path()).unwrap();
            assert_eq!((folder.config(), folder.stored()), (&config, Some(stored)));
            assert_eq!(folder.json()["quantization_config"]["weights"], stored_name(stored));
            assert_eq!(folder.json()["eos_token_id"], 7);
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2, "the files of before are gone");
            let again = folder.session(&Device::cpu()).unwrap();
            assert_eq!(logits(&again, &ids), logits(&kept, &ids), "{stored:?}");
            // The size is that of the format plus a header.
            let mut bytes = 0;
            kept.model().visit(&mut Visitor::new(&mut |_, param| bytes += param.ty().bytes()));
            let size = std::fs::metadata(place.path().join("model.safetensors")).unwrap().len();
            assert!((bytes..bytes + 8192).contains(&size), "{size} for {bytes}");
            let floats = 4 * config.parameters();
            let share = bytes as f64 / floats as f64;
            let most = match stored {
                Stored::F16 | Stored::BF16 => 0.55,
                Stored::Blocks(BlockFormat::Q8_0) => 0.31,
                Stored::Blocks(BlockFormat::Q4_0) => 0.19,
            };
            assert!(share < most, "{stored:?}: {share}");
            // Loaded as f32, the model has the rounded weights.
            let floats = folder.session_stored(&Device::cpu(), None).unwrap();
            let want = rounded(&original, &config, stored);
            floats.model().visit(&mut Visitor::new(&mut |name, _| {
                assert_eq!(floats.get(name).unwrap(), want.get(name).unwrap(), "{stored:?}: {name}");
            }));
            let other = FORMS[usize::from(stored == FORMS[0])];
            let error = folder.session_stored(&Device::cpu(), Some(other)).unwrap_err().to_string();
            assert!(error.contains("and are wanted in"), "{error}");
        }
        let error = save_stored(&original, place.path(), &Default::default()).unwrap_err();
        assert!(error.message().contains("no matrix of the model is kept in fewer bits"));
    }
}

#[test]
fn ways_to_quantise_that_are_not_known_are_named() {
    let config = &configs()[0];
    let original = Session::new(config.build().unwrap(), &Device::cpu(), 3).unwrap();
    let place = tempfile::tempdir().unwrap();
    for (change, part) in [
        (serde_json::json!({ "quant_method": "gptq", "bits": 4 }), "`quantization_config` is \"gptq\""),
        (serde_json::json!({ "quant_method": "gradloom", "weights": "q9" }), "with the weights \"q9\""),
        (serde_json::json!("x"), "`quantization_config` is null"),
    ] {
        let extra = [("quantization_config".to_string(), change)].into_iter().collect();
        save(&original, place.path(), &Saving { extra, ..Saving::default() }).unwrap();
        let error = Folder::open(place.path()).unwrap_err();
        assert!(error.message().contains(part) && error.remedies().count() == 1, "{error}");
    }
}
