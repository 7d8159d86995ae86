//! Folders written by transformers yield the same results as in transformers, and are saved unchanged.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

#[path = "common/decoder.rs"]
mod decoder;

use decoder::Decoder;
use gradloom::CpuDevice as _;
use gradloom_core::error::Error;
use gradloom_core::nn::{Module, Param, Visitor};
use gradloom_core::trace::{Tensor, i32};
use gradloom_models::any_model::{AnyConfig, AnyModel};
use gradloom_models::hugging_face::{Folder, Generation, Saving, from_json, save, to_json};
use gradloom_models::language_model::LanguageModel;
use gradloom_models::llama::{Llama, LlamaConfig};
use gradloom_runtime::files::Weights;
use gradloom_runtime::{Device, Session};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 3] = ["gpt2", "llama", "tied"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hugging_face").join(name)
}

/// Results of transformers for a folder; see `scripts/oracle/hugging_face.py`.
struct Expected {
    ids: Vec<i32>,
    logits: Vec<f32>,
    greedy: Vec<i32>,
    window: Vec<i32>,
    perplexity: f64,
}

impl Expected {
    fn of(name: &str) -> Self {
        let file = Weights::open(path(name).join("expected.safetensors")).unwrap();
        let floats = |name: &str| file.get(name).unwrap().to_f32().unwrap();
        let ints = |name: &str| floats(name).into_iter().map(|x| x as i32).collect();
        let perplexity = file.get("perplexity").unwrap().bytes.try_into().unwrap();
        Self {
            ids: ints("ids"),
            logits: floats("logits"),
            greedy: ints("greedy"),
            window: ints("window"),
            perplexity: f64::from_le_bytes(perplexity),
        }
    }
}

fn logits(session: &Session<AnyModel>, ids: &[i32]) -> Vec<f32> {
    let shape = [2, ids.len() / 2];
    session.infer([i32("ids", shape)], |model, [ids]| model.forward(ids)).unwrap().run((ids,)).unwrap()
}

fn argmax(logits: &[f32]) -> i32 {
    let best = |best: usize, i: usize| if logits[i] > logits[best] { i } else { best };
    (0..logits.len()).fold(0, best) as i32
}

fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn logits_are_those_of_transformers() {
    for name in FOLDERS {
        let expected = Expected::of(name);
        let session = Folder::open(path(name)).unwrap().session(&Device::cpu()).unwrap();
        let difference = greatest_difference(&logits(&session, &expected.ids), &expected.logits);
        assert!(difference < 1e-4, "{name}: {difference}");
    }
}

#[test]
fn perplexities_are_those_of_transformers() {
    for name in FOLDERS {
        let expected = Expected::of(name);
        let session = Folder::open(path(name)).unwrap().session(&Device::cpu()).unwrap();
        let (ids, targets) = (&expected.window[..255], &expected.window[1..]);
        let inputs = [i32("ids", [1, 255]), i32("targets", [1, 255])];
        let loss = |model: &AnyModel, [ids, targets]: [Tensor; 2]| model.forward(ids).cross_entropy(targets);
        let loss: Vec<f32> = session.infer(inputs, loss).unwrap().run((ids, targets)).unwrap();
        let relative = f64::from(loss[0]).exp() / expected.perplexity - 1.0;
        assert!(relative.abs() < 1e-5, "{name}: {relative}");
    }
}

#[test]
fn greedy_text_is_that_of_transformers_with_and_without_a_cache() {
    for name in FOLDERS {
        let expected = Expected::of(name);
        let session = Folder::open(path(name)).unwrap().session(&Device::cpu()).unwrap();
        let prompt = &expected.ids[..7];
        let mut decoder = Decoder::new(&session, "cache").unwrap();
        let mut next = argmax(&decoder.feed(prompt).unwrap());
        let mut cached = Vec::new();
        for _ in &expected.greedy {
            cached.push(next);
            next = argmax(&decoder.feed(&[next]).unwrap());
        }
        assert_eq!(cached, expected.greedy, "{name}");

        let context = session.model().sizes().context;
        let inputs = [i32("ids", [1, context]), i32("last", [1])];
        let mut whole = session
            .infer(inputs, |model, [ids, last]| {
                let logits = model.forward(ids);
                let [_, time, vocabulary] = logits.dims();
                logits.reshape([time, vocabulary]).gather_rows(last)
            })
            .unwrap();
        let mut text = prompt.to_vec();
        for _ in &expected.greedy {
            let mut ids = text.clone();
            ids.resize(context, 0);
            text.push(argmax(&whole.run((&ids, &[text.len() as i32 - 1])).unwrap()));
        }
        assert_eq!(text[prompt.len()..], expected.greedy, "{name}");
    }
}

#[test]
fn what_is_saved_is_what_was_read() {
    for name in FOLDERS {
        let folder = Folder::open(path(name)).unwrap();
        let session = folder.session(&Device::cpu()).unwrap();
        // Each save replaces the files of the previous one.
        let place = tempfile::tempdir().unwrap();
        for shard_bytes in [usize::MAX, 20_000, 1, usize::MAX] {
            save(&session, place.path(), &Saving { shard_bytes, ..Saving::default() }).unwrap();
            let copy = Folder::open(place.path()).unwrap();
            assert_eq!(copy.config(), folder.config(), "{name}");
            let tensors = |weights: &Weights| -> Vec<(String, String, Vec<u8>)> {
                let all = weights.iter();
                all.map(|(name, found)| (name.into(), found.to_string(), found.bytes.to_vec())).collect()
            };
            assert!(tensors(copy.weights()) == tensors(folder.weights()), "{name} in {shard_bytes}");
            // One tensor per file requires an index.
            assert_eq!(place.path().join("model.safetensors").exists(), shard_bytes == usize::MAX);
        }
    }
}

#[test]
fn a_model_that_transformers_does_not_have_is_not_saved() {
    let AnyConfig::Llama(config) = Folder::open(path("llama")).unwrap().config().clone() else {
        panic!("a llama")
    };
    let session = |config: &LlamaConfig| {
        let model = AnyModel::Llama(Llama::new(config).unwrap());
        Session::new(model, &Device::cpu(), 1).unwrap()
    };
    let mistral = LlamaConfig { window: Some(9), ..config };
    let place = tempfile::tempdir().unwrap();
    save(&session(&mistral), place.path(), &Saving::default()).unwrap();
    assert_eq!(*Folder::open(place.path()).unwrap().config(), AnyConfig::Llama(mistral.clone()));
    let biased = LlamaConfig { attention_bias: true, ..mistral };
    let error = save(&session(&biased), place.path(), &Saving::default()).unwrap_err();
    assert!(error.message().contains("a sliding window and biases"), "{error}");
}

#[test]
fn sixteen_bits_are_written_and_read() {
    let session = Folder::open(path("llama")).unwrap().session(&Device::cpu()).unwrap();
    let expected = Expected::of("llama");
    for (dtype, bound) in [(gradloom_core::ir::DType::F16, 0.05), (gradloom_core::ir::DType::BF16, 0.5)] {
        let place = tempfile::tempdir().unwrap();
        save(&session, place.path(), &Saving { dtype, ..Saving::default() }).unwrap();
        let copy = Folder::open(place.path()).unwrap().session(&Device::cpu()).unwrap();
        let difference = greatest_difference(&logits(&copy, &expected.ids), &expected.logits);
        assert!(difference > 0.0 && difference < bound, "{dtype}: {difference}");
    }
}

/// Returns the configuration of a folder with some keys changed, or the resulting error.
fn changed(name: &str, changes: Value) -> Result<AnyConfig, Error> {
    let mut json: Value =
        serde_json::from_slice(&std::fs::read(path(name).join("config.json")).unwrap()).unwrap();
    for (key, value) in changes.as_object().unwrap() {
        json[key] = value.clone();
    }
    from_json(&json, "config.json")
}

#[test]
fn what_no_model_here_has_is_refused_by_name() {
    for (name, changes, part) in [
        ("gpt2", json!({ "model_type": "bert" }), "`model_type` is \"bert\""),
        ("gpt2", json!({ "activation_function": "relu" }), "`activation_function` is \"relu\""),
        (
            "gpt2",
            json!({ "scale_attn_by_inverse_layer_idx": true }),
            "`scale_attn_by_inverse_layer_idx` is true",
        ),
        ("gpt2", json!({ "n_embd": "many" }), "`n_embd` is \"many\", which is no size"),
        ("gpt2", json!({ "n_layer": null }), "there is no `n_layer`"),
        ("gpt2", json!({ "n_head": -1 }), "`n_head` is -1, which is no size"),
        ("llama", json!({ "hidden_act": "gelu" }), "`hidden_act` is \"gelu\""),
        (
            "llama",
            json!({ "rope_parameters": { "rope_type": "yarn" } }),
            "`rope_parameters.rope_type` is \"yarn\"",
        ),
        (
            "llama",
            json!({ "rope_parameters": { "rope_type": "linear" } }),
            "there is no `rope_parameters.factor`",
        ),
        ("llama", json!({ "rope_parameters": 3 }), "`rope_parameters` is 3, which is no object"),
        (
            "llama",
            json!({ "model_type": "mistral", "sliding_window": "all" }),
            "`sliding_window` is \"all\", which is no size",
        ),
    ] {
        let error = changed(name, changes).unwrap_err();
        assert!(error.message().contains(part), "{}", error.message());
        assert!(error.remedies().next().is_some());
    }
}

#[test]
fn configurations_of_other_versions_are_read() {
    let AnyConfig::Llama(read) = changed("llama", json!({})).unwrap() else { panic!("a llama") };
    let old = json!({
        "rope_parameters": null,
        "rope_theta": 500.0,
        "rope_scaling": {
            "type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    });
    assert_eq!(changed("llama", old).unwrap(), AnyConfig::Llama(read.clone()));
    let none = json!({ "rope_parameters": null, "num_key_value_heads": null, "head_dim": null });
    let AnyConfig::Llama(plain) = changed("llama", none).unwrap() else { panic!("a llama") };
    assert_eq!((plain.key_heads, plain.depth, plain.rotary.base), (4, 8, 10_000.0));
    let mistral = json!({ "model_type": "mistral", "sliding_window": null });
    assert_eq!(changed("llama", mistral).unwrap(), AnyConfig::Llama(read.clone()));
    // A missing window has the default of transformers, and one of the whole context changes nothing.
    for (changes, window) in [
        (json!({ "model_type": "mistral", "max_position_embeddings": 8192 }), Some(4096)),
        (json!({ "model_type": "mistral", "sliding_window": 64 }), Some(64)),
        (json!({ "model_type": "mistral", "sliding_window": read.context }), None),
    ] {
        let config = changed("llama", changes).unwrap();
        let AnyConfig::Llama(mistral) = &config else { panic!("a llama") };
        assert_eq!(mistral.window, window);
        assert_eq!(from_json(&to_json(&config), "config.json").unwrap(), config);
    }
    for name in FOLDERS {
        let config = changed(name, json!({})).unwrap();
        assert_eq!(from_json(&to_json(&config), "config.json").unwrap(), config);
    }
}

#[test]
fn tensors_of_another_model_are_refused_by_name() {
    let folder = Folder::open(path("gpt2")).unwrap();
    let session = |change: Value| {
        let model = changed("gpt2", change).unwrap().build().unwrap();
        Session::new(model, &Device::cpu(), 0).unwrap()
    };
    for (change, part) in [
        (json!({ "n_layer": 1 }), "no place for `transformer.h.1."),
        (json!({ "n_layer": 3 }), "transformer.h.2."),
        (json!({ "n_positions": 100 }), "transformer.wpe.weight"),
    ] {
        let session = session(change);
        let error = gradloom_models::hugging_face::load(&session, folder.weights()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_folder_without_its_files_is_refused() {
    let place = tempfile::tempdir().unwrap();
    assert!(!Folder::is_at(place.path()));
    let message = |place: &Path| Folder::open(place).unwrap_err().to_string();
    assert!(message(place.path()).contains("config.json: cannot be read"));
    std::fs::write(place.path().join("config.json"), "{").unwrap();
    assert!(message(place.path()).contains("it is no JSON"));
    std::fs::write(place.path().join("config.json"), "[]").unwrap();
    assert!(message(place.path()).contains("it is no JSON object"));
    std::fs::copy(path("gpt2").join("config.json"), place.path().join("config.json")).unwrap();
    assert!(message(place.path()).contains("safetensors"), "{}", message(place.path()));
    // Truncate the file with the tensors.
    let bytes = std::fs::read(path("gpt2").join("model.safetensors")).unwrap();
    std::fs::write(place.path().join("model.safetensors"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(message(place.path()).contains("model.safetensors"));
}

#[test]
fn parameters_are_counted_without_the_model() {
    for name in FOLDERS {
        let config = Folder::open(path(name)).unwrap().config().clone();
        let mut with_biases = config.clone();
        if let AnyConfig::Llama(llama) = &mut with_biases {
            (llama.attention_bias, llama.mlp_bias) = (true, true);
        }
        for config in [config, with_biases] {
            let mut elements = 0;
            let mut count = |_: &str, param: &Param| elements += param.shape().iter().product::<usize>();
            config.build().unwrap().visit(&mut Visitor::new(&mut count));
            assert_eq!(config.parameters(), elements, "{name}");
        }
    }
}

/// Returns the tensors of a file except `without`, with the given metadata. Each pair in `more` adds a copy
/// under the first name of the tensor with the second name, negated if `-` precedes the second name.
fn file_of(name: &str, without: &str, more: &[(&str, &str)], metadata: &[(&str, &str)]) -> Weights {
    use safetensors::tensor::{Dtype, TensorView};
    let folder = Folder::open(path(name)).unwrap();
    let of = |name: &str| folder.weights().get(name).unwrap();
    let mut all: Vec<(String, Vec<usize>, Vec<u8>)> = folder
        .weights()
        .iter()
        .filter(|(name, _)| *name != without)
        .map(|(name, found)| (name.into(), found.shape.into(), found.bytes.into()))
        .collect();
    for (name, of_other) in more {
        let negative = |bytes: &[u8]| [bytes[0], bytes[1], bytes[2], bytes[3] ^ 0x80];
        let (bytes, is_other) = (of(of_other.trim_start_matches('-')), of_other.starts_with('-'));
        let changed =
            bytes.bytes.as_chunks::<4>().0.iter().flat_map(|x| if is_other { negative(x) } else { *x });
        all.push((name.to_string(), bytes.shape.into(), changed.collect()));
    }
    let views = all
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    let metadata = metadata.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    Weights::from_bytes(safetensors::serialize(views, Some(metadata)).unwrap()).unwrap()
}

/// A file may contain either of two tied tensors, both, or two that differ, which a tied model rejects.
#[test]
fn the_output_layer_is_not_dropped() {
    for (name, embedding) in [("gpt2", "transformer.wte.weight"), ("tied", "model.embed_tokens.weight")] {
        let (config, head) = (changed(name, json!({})).unwrap(), "lm_head.weight");
        let whole = Folder::open(path(name)).unwrap().session(&Device::cpu()).unwrap();
        let ids: Vec<i32> = (0..20).collect();
        for (without, more, metadata) in [
            ("", &[(head, embedding)][..], &[][..]),
            (embedding, &[(head, embedding)], &[(embedding, head)]),
            (embedding, &[(head, embedding)], &[]),
            ("", &[], &[(head, embedding)]),
        ] {
            let file = file_of(name, without, more, metadata);
            let session = Session::new(config.build().unwrap(), &Device::cpu(), 0).unwrap();
            gradloom_models::hugging_face::load(&session, &file).unwrap();
            assert!(logits(&session, &ids) == logits(&whole, &ids), "{name}");
        }
        let file = file_of(name, "", &[(head, &format!("-{embedding}"))], &[]);
        let session = Session::new(config.build().unwrap(), &Device::cpu(), 0).unwrap();
        let error = gradloom_models::hugging_face::load(&session, &file).unwrap_err();
        assert!(error.message().contains("`lm_head.weight` is not the token embedding"), "{error}");
        let mut untied = config.clone();
        match &mut untied {
            AnyConfig::Gpt2(config) => config.tied = false,
            AnyConfig::Llama(config) => config.tied = false,
        }
        assert_eq!(untied.parameters() - config.parameters(), config.vocabulary() * config.width());
        let session = Session::new(untied.build().unwrap(), &Device::cpu(), 0).unwrap();
        gradloom_models::hugging_face::load(&session, &file).unwrap();
        let expected: Vec<f32> = logits(&whole, &ids).iter().map(|x| -x).collect();
        assert!(greatest_difference(&logits(&session, &ids), &expected) < 1e-4, "{name}");
        // The model is saved as an untied one.
        let place = tempfile::tempdir().unwrap();
        save(&session, place.path(), &Saving::default()).unwrap();
        let copy = Folder::open(place.path()).unwrap();
        assert_eq!((copy.config(), copy.note()), (&untied, None));
        assert!(logits(&copy.session(&Device::cpu()).unwrap(), &ids) == logits(&session, &ids), "{name}");
    }
}

/// A settings file without a token that ends a text differs from a missing file; see
/// `scripts/oracle/generation_files.py`.
#[test]
fn the_settings_of_generating_text_are_those_of_transformers() {
    let rows: Vec<Value> =
        serde_json::from_slice(&std::fs::read(path("generation_files.json")).unwrap()).unwrap();
    assert_eq!(rows.len(), 18);
    for row in rows {
        let (folder, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        if let Some(text) = row["generation"].as_str() {
            std::fs::write(folder.path().join("generation_config.json"), text).unwrap();
        }
        let generation = Generation::open(folder.path(), Some(&row["config"])).unwrap();
        generation.save(again.path()).unwrap();
        // The written file takes precedence over a `config.json` in the same folder.
        let others = generation.get("eos_token_id").map(|_| json!({"bos_token_id": 9, "eos_token_id": 9}));
        let written = Generation::open(again.path(), others.as_ref()).unwrap();
        for generation in [&generation, &written] {
            for key in ["bos_token_id", "eos_token_id", "pad_token_id", "temperature", "top_k", "do_sample"] {
                let value = generation.get(key).unwrap_or(&Value::Null);
                assert_eq!(*value, row[key], "{key} of {row}");
            }
        }
        let is_written = again.path().join("generation_config.json").exists();
        assert!(is_written || row["generation"].is_null(), "{row}");
    }
}

/// An index may refer to files in subfolders, but not elsewhere. A listed tensor may be missing from its file
/// unless the model needs it.
#[test]
fn an_index_names_files_below_it() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let original = Folder::open(path("gpt2")).unwrap();
    let names: Vec<String> = original.weights().iter().map(|(name, _)| name.to_string()).collect();
    let copy = |to: &Path| std::fs::copy(path("gpt2").join("model.safetensors"), to).unwrap();
    std::fs::copy(path("gpt2").join("config.json"), folder.path().join("config.json")).unwrap();
    std::fs::create_dir_all(folder.path().join("sub/deeper")).unwrap();
    copy(&folder.path().join("a.safetensors"));
    copy(&folder.path().join("sub/deeper/b.safetensors"));
    copy(&elsewhere.path().join("c.safetensors"));
    let open = |file: &dyn Fn(usize) -> &'static str, extra: &[&str]| {
        let map = names.iter().map(String::as_str).chain(extra.iter().copied()).enumerate();
        let map: serde_json::Map<_, _> = map.map(|(i, name)| (name.to_string(), file(i).into())).collect();
        let index = json!({"metadata": {"total_size": "SIZE"}, "weight_map": map}).to_string();
        let index = index.replace("\"SIZE\"", "Infinity");
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        Folder::open(folder.path()).and_then(|folder| folder.session(&Device::cpu()).map(drop))
    };
    let both = |i: usize| ["./a.safetensors", "sub/./deeper/b.safetensors", "a.safetensors"][i % 3];
    open(&both, &["transformer.h.0.attn.bias"]).unwrap();
    for odd in ["../c.safetensors", "/c.safetensors", "", ".", "sub/../a.safetensors", "a.safetensors/.."] {
        let message = open(&|_| odd, &[]).unwrap_err().to_string();
        assert!(message.contains("which is not the name of a file in the folder"), "{odd}: {message}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("out")).unwrap();
        let message = open(&|_| "out/c.safetensors", &[]).unwrap_err().to_string();
        assert!(message.contains("is a link out of that of"), "{message}");
        std::os::unix::fs::symlink("sub/deeper", folder.path().join("in")).unwrap();
        open(&|_| "in/b.safetensors", &[]).unwrap();
        // Allow links to other folders, which the Hugging Face Hub's downloads contain.
        let file = elsewhere.path().join("c.safetensors");
        std::os::unix::fs::symlink(file, folder.path().join("linked.safetensors")).unwrap();
        open(&|_| "linked.safetensors", &[]).unwrap();
    }
    std::fs::write(folder.path().join("sub/empty"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    let message = open(&|i| if i == 0 { "sub/empty" } else { "a.safetensors" }, &[]).unwrap_err().to_string();
    let lost = format!("empty: the file has no `{}`, which ", names[0]);
    assert!(message.contains(&lost), "{message}");
}
