//! Tests that models written by transformers have the results of transformers, also on a GPU.

use crate::decoder::Decoder;
use crate::{device, skipped};
use gradloom::CpuDevice as _;
use gradloom::ir::BlockFormat;
use gradloom::nn::{Stored, store_matrices};
use gradloom::runtime::files::Weights;
use gradloom::{Device, Session, i32};
use gradloom_models::any_model::AnyModel;
use gradloom_models::hugging_face::{Folder, load};
use gradloom_models::kv::{PagedBatch, PagedKeyValues};
use gradloom_models::language_model::LanguageModel;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hugging_face").join(name)
}

fn expected(name: &str, tensor: &str) -> Vec<f32> {
    let file = Weights::open(path(name).join("expected.safetensors")).unwrap();
    file.get(tensor).unwrap().to_f32().unwrap()
}

fn ids(name: &str, tensor: &str) -> Vec<i32> {
    expected(name, tensor).into_iter().map(|id| id as i32).collect()
}

#[track_caller]
fn assert_near(got: &[f32], want: &[f32], bound: f32, what: &str) {
    let difference = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(got.len() == want.len() && difference < bound, "{what}: {difference}");
}

fn logits(session: &Session<AnyModel>, ids: &[i32]) -> Vec<f32> {
    let shape = [2, ids.len() / 2];
    session.infer([i32("ids", shape)], |model, [ids]| model.forward(ids)).unwrap().run([ids]).unwrap()
}

#[test]
fn logits_and_greedy_text_are_those_of_transformers() {
    if skipped() {
        return;
    }
    for name in ["gpt2", "llama", "tied"] {
        let session = Folder::open(path(name)).unwrap().session(&device()).unwrap();
        let prompt = ids(name, "ids");
        assert_near(&logits(&session, &prompt), &expected(name, "logits"), 1e-4, name);
        let mut decoder = Decoder::new(&session, "text").unwrap();
        let argmax = |logits: &[f32]| {
            let best = |best: usize, i: usize| if logits[i] > logits[best] { i } else { best };
            (0..logits.len()).fold(0, best) as i32
        };
        let mut next = argmax(&decoder.feed(&prompt[..7]).unwrap());
        for (i, token) in ids(name, "greedy").into_iter().enumerate() {
            assert_eq!(next, token, "{name}, token {i}");
            next = argmax(&decoder.feed(&[token]).unwrap());
        }
    }
}

#[test]
fn weights_in_fewer_bits_are_those_of_a_cpu() {
    if skipped() {
        return;
    }
    let folder = Folder::open(path("gpt2")).unwrap();
    for stored in
        [Stored::F16, Stored::BF16, Stored::Blocks(BlockFormat::Q8_0), Stored::Blocks(BlockFormat::Q4_0)]
    {
        let [got, want] = [device(), Device::cpu()].map(|device| {
            let model = folder.config().build().unwrap();
            store_matrices(&model, stored).unwrap();
            let session = Session::new(model, &device, 0).unwrap();
            load(&session, folder.weights()).unwrap();
            logits(&session, &ids("gpt2", "ids"))
        });
        assert_near(&got, &want, 1e-4, &format!("{stored:?}"));
    }
}

/// Rows with three new tokens and with one, a row without a text, and block tables in any order.
#[test]
fn texts_in_pages_are_those_of_a_cpu() {
    if skipped() {
        return;
    }
    for name in ["gpt2", "llama"] {
        let [got, want] = [device(), Device::cpu()].map(|device| {
            let session = Folder::open(path(name)).unwrap().session(&device).unwrap();
            let pool = PagedKeyValues::new(session.model().sizes(), 48, 4, "pool");
            let program = |time| {
                let inputs =
                    [i32("ids", [3, time]), i32("tables", [3, 20]), i32("starts", [3]), i32("lengths", [3])];
                session.infer(inputs, |model, [ids, tables, starts, lengths]| {
                    model.logits(pool.extend(model, ids, PagedBatch { tables, starts, lengths }))
                })
            };
            let (mut many, mut one) = (program(3).unwrap(), program(1).unwrap());
            let tables: Vec<i32> = (0..60).map(|i| (i * 7 + 1) % 48).collect();
            let text: Vec<i32> = (0..9).map(|i| i * 5 % 60).collect();
            let mut many = |starts: [i32; 3], lengths: [i32; 3]| {
                let logits = many.run((&text, &tables, &starts, &lengths)).unwrap();
                // Compare only the logits of text, because those of padding are meaningless.
                let vocabulary = logits.len() / 9;
                let is_text = |i: &usize| ((i % 3) as i32) < lengths[i / 3] - starts[i / 3];
                let there = (0..9).filter(is_text);
                there.flat_map(|i| logits[i * vocabulary..][..vocabulary].to_vec()).collect::<Vec<f32>>()
            };
            let mut all = many([0, 0, 0], [3, 1, 0]);
            all.extend(many([3, 1, 0], [6, 4, 2]));
            let last = one.run((&[8, 9, 10], &tables, &[6, 4, 2], &[7, 5, 3])).unwrap();
            [all, last].concat()
        });
        assert_near(&got, &want, 1e-4, name);
    }
}
