//! Texts that share the pages of one pool get the same logits as when each is computed alone.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

#[path = "common/decoder.rs"]
mod decoder;

use decoder::Decoder;
use gradloom::CpuDevice as _;
use gradloom_core::ir::DType;
use gradloom_core::nn::{Stored, store_matrices};
use gradloom_core::trace::{AttentionOptions, Tensor, i32, iota};
use gradloom_models::any_model::AnyModel;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_models::hugging_face::Folder;
use gradloom_models::kv::pages::{BatchShape, BlockCopy, Pages, SequenceId};
use gradloom_models::kv::{PagedBatch, PagedKeyValues};
use gradloom_models::language_model::LanguageModel;
use gradloom_runtime::pipeline::Target;
use gradloom_runtime::{Device, Infer, Limits, Precision, Session};
use std::path::{Path, PathBuf};

const BLOCKS: usize = 24;
const BLOCK: usize = 4;
/// Rows, new tokens per row, and blocks per row.
const SHAPE: BatchShape = BatchShape { rows: 3, time: 5, blocks: 6 };
const VOCABULARY: usize = 97;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hugging_face").join(name)
}

fn session(name: &str) -> Session<AnyModel> {
    Folder::open(folder(name)).unwrap().session(&Device::cpu()).unwrap()
}

/// Returns the Llama as a Mistral with a sliding window.
fn mistral(window: usize) -> Session<AnyModel> {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder("llama")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let config = copy.path().join("config.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    json["model_type"] = "mistral".into();
    json["sliding_window"] = window.into();
    std::fs::write(&config, json.to_string()).unwrap();
    Folder::open(copy.path()).unwrap().session(&Device::cpu()).unwrap()
}

/// A pool on the device with its bookkeeping.
struct Paged {
    pages: Pages,
    step: Infer<4, Tensor>,
    copy: Infer<2, ()>,
}

impl Paged {
    fn new(session: &Session<AnyModel>) -> Self {
        let pool = PagedKeyValues::new(session.model().sizes(), BLOCKS, BLOCK, "pool");
        let BatchShape { rows, time, blocks } = SHAPE;
        let inputs = [
            i32("ids", [rows, time]),
            i32("tables", [rows, blocks]),
            i32("starts", [rows]),
            i32("lengths", [rows]),
        ];
        let step = session.infer(inputs, |model, [ids, tables, starts, lengths]| {
            model.logits(pool.extend(model, ids, PagedBatch { tables, starts, lengths }))
        });
        let copies = [i32("from", [2]), i32("to", [2])];
        let copy = session.infer(copies, |_, [from, to]| pool.copy_blocks(from, to));
        Self { pages: Pages::new(BLOCKS, BLOCK).unwrap(), step: step.unwrap(), copy: copy.unwrap() }
    }

    /// Appends tokens to some texts in one step and returns the logits after the last token of each.
    fn append(&mut self, texts: &[(SequenceId, &[i32])]) -> Vec<Vec<f32>> {
        let mut copies: Vec<BlockCopy> = Vec::new();
        for (id, new) in texts {
            copies.extend(self.pages.reserve(*id, new.len()).unwrap());
        }
        if !copies.is_empty() {
            let (mut from, mut to) = ([0; 2], [-1; 2]);
            for (i, copy) in BlockCopy::at_once(&copies).into_iter().enumerate() {
                (from[i], to[i]) = (copy.from.index() as i32, copy.to.index() as i32);
            }
            self.copy.run((&from, &to)).unwrap();
        }
        let rows: Vec<_> = texts.iter().map(|(id, new)| Some((*id, 0..new.len()))).collect();
        let batch = self.pages.batch(&rows, SHAPE).unwrap();
        let mut ids = vec![0; SHAPE.rows * SHAPE.time];
        for (row, (_, new)) in texts.iter().enumerate() {
            ids[row * SHAPE.time..][..new.len()].copy_from_slice(new);
        }
        let logits = self.step.run((&ids, &batch.tables, &batch.starts, &batch.lengths)).unwrap();
        let last = texts.iter().enumerate().map(|(row, (id, new))| {
            self.pages.commit(*id, new).unwrap();
            logits[(row * SHAPE.time + new.len() - 1) * VOCABULARY..][..VOCABULARY].to_vec()
        });
        let last = last.collect();
        self.pages.check();
        last
    }
}

/// Returns the logits after a text, computed alone.
fn alone(session: &Session<AnyModel>, text: &[i32]) -> Vec<f32> {
    let mut decoder = Decoder::new(session, "alone").unwrap();
    decoder.reset();
    decoder.feed(text).unwrap()
}

#[track_caller]
fn assert_near(got: &[f32], want: &[f32]) {
    let difference = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(got.len() == want.len() && difference < 1e-4, "{difference}");
}

#[test]
fn texts_of_any_lengths_share_steps_and_the_pool() {
    for session in [session("gpt2"), session("llama"), mistral(1), mistral(6)] {
        let mut paged = Paged::new(&session);
        let texts: [Vec<i32>; 3] =
            [(3..24).collect(), vec![9, 9, 1, 4, 80, 22, 17], (0..24).map(|i| i * 7 % 97).collect()];
        let ids: Vec<SequenceId> = texts.iter().map(|text| paged.pages.begin(text).sequence).collect();
        let mut done = [0; 3];
        // Rows join, wait and leave. The second text grows by one token at a time, and the third fills its
        // table.
        for (step, counts) in
            [[5, 1, 0], [5, 1, 5], [1, 1, 5], [5, 0, 5], [0, 1, 5], [5, 1, 4]].iter().enumerate()
        {
            let chosen: Vec<usize> = (0..3).filter(|&row| counts[row] > 0).collect();
            let new = |row: usize| (ids[row], &texts[row][done[row]..done[row] + counts[row]]);
            let logits = paged.append(&chosen.iter().map(|&row| new(row)).collect::<Vec<_>>());
            for (&row, logits) in chosen.iter().zip(&logits) {
                done[row] += counts[row];
                assert_near(logits, &alone(&session, &texts[row][..done[row]]));
            }
            assert!(step < 5 || done == [21, 5, 24]);
        }
    }
}

#[test]
fn a_window_hides_what_lies_before_it() {
    const WINDOW: usize = 6;
    let text: Vec<i32> = (0..24).map(|i| i * 7 % 97).collect();
    let time = text.len();
    // The oracle has a mask, by which attention is computed from several ops.
    let all = |session: &Session<AnyModel>, window: usize| -> Vec<f32> {
        let program = session.infer([i32("ids", [1, time])], |model, [ids]| {
            let position = |axis: isize| iota(DType::I32, [time, time], axis);
            let visible = (position(0) - position(1)).lt(window as i32);
            let mut attend = |_: usize, [q, k, v]: [Tensor; 3]| {
                q.attention(k, v, AttentionOptions::causal().mask(visible))
            };
            model.logits(model.hidden(ids, iota(DType::I32, [time], 0), &mut attend))
        });
        program.unwrap().run((&text,)).unwrap().to_vec()
    };
    let (plain, session) = (session("llama"), mistral(WINDOW));
    let mut forward = session.infer([i32("ids", [1, time])], |model, [ids]| model.forward(ids)).unwrap();
    let logits = forward.run((&text,)).unwrap().to_vec();
    assert_near(&logits, &all(&plain, WINDOW));
    let differs = |other: Vec<f32>| logits.iter().zip(other).any(|(a, b)| (a - b).abs() > 0.01);
    assert!(differs(all(&plain, WINDOW + 1)) && differs(all(&plain, time)));
    for length in [1, WINDOW, WINDOW + 1, time] {
        let row = &logits[(length - 1) * VOCABULARY..length * VOCABULARY];
        assert_near(&alone(&session, &text[..length]), row);
    }
}

#[test]
fn forks_write_apart_and_prefixes_are_found() {
    let session = session("llama");
    let mut paged = Paged::new(&session);
    let text: Vec<i32> = (10..19).collect();
    let first = paged.pages.begin(&text).sequence;
    paged.append(&[(first, &text[..5])]);
    paged.append(&[(first, &text[5..])]);
    let second = paged.pages.fork(first).unwrap();
    let logits = paged.append(&[(first, &[50]), (second, &[60, 61])]);
    assert_near(&logits[0], &alone(&session, &[&text[..], &[50]].concat()));
    assert_near(&logits[1], &alone(&session, &[&text[..], &[60, 61]].concat()));
    paged.pages.end(first).unwrap();
    paged.pages.end(second).unwrap();

    let begun = paged.pages.begin(&text);
    assert_eq!(begun.cached, 8, "two whole blocks");
    let logits = paged.append(&[(begun.sequence, &text[8..])]);
    assert_near(&logits[0], &alone(&session, &text));
}

#[test]
fn a_text_beyond_its_table_fails_and_writes_nothing() {
    for name in ["gpt2", "llama"] {
        let session = session(name);
        let mut paged = Paged::new(&session);
        let before = session.store().read("pool.h.0.keys").unwrap();
        let tables = vec![1; SHAPE.rows * SHAPE.blocks];
        let mut run =
            |starts: [i32; 3], lengths: [i32; 3]| paged.step.run((&[1; 15], &tables, &starts, &lengths));
        // A table holds 24 positions; padding may exceed them.
        assert!(run([0, 0, 24], [0, 0, 24]).is_ok());
        assert_eq!(session.store().read("pool.h.0.keys").unwrap(), before);
        for row in 0..3 {
            let (mut starts, mut lengths) = ([0; 3], [0; 3]);
            (starts[row], lengths[row]) = (23, 25);
            assert!(run(starts, lengths).is_err(), "{name}, row {row}");
            assert_eq!(session.store().read("pool.h.0.keys").unwrap(), before);
        }
    }
}

/// A step of few rows reads the vocabulary's weights in place; one of many rows uses the vendor library,
/// whose results have padded rows. Both plans are valid.
#[test]
fn steps_of_any_number_of_rows_have_a_plan_for_cuda() {
    let limits = Limits::cuda().with_library();
    let device = Device::null_for(Target::cuda(limits, Precision::Bf16));
    let config = Gpt2Config { vocabulary: 5003, context: 64, width: 512, layers: 1, ..Gpt2Config::DEFAULT };
    let config = Gpt2Config { heads: 8, ..config };
    for stored in [None, Some(Stored::BF16)] {
        for rows in [1, 8, 9, 64] {
            let model = Gpt2::new(&config).unwrap();
            if let Some(stored) = stored {
                store_matrices(&model, stored).unwrap();
            }
            let session = Session::new(model, &device, 0).unwrap();
            let pool = PagedKeyValues::new(session.model().sizes(), BLOCKS, BLOCK, "pool");
            let inputs = [
                i32("ids", [rows, 1]),
                i32("tables", [rows, 16]),
                i32("starts", [rows]),
                i32("lengths", [rows]),
            ];
            let step = session.infer(inputs, |model, [ids, tables, starts, lengths]| {
                let hidden = pool.extend(model, ids, PagedBatch { tables, starts, lengths });
                model.logits(hidden.reshape([rows, 512])).argmax(-1)
            });
            step.unwrap_or_else(|error| panic!("{rows} rows, {stored:?}: {error}"));
        }
    }
}
