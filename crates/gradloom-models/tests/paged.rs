//! Texts in pages of one pool get the logits that each gets alone.

use gradloom_core::trace::{Tensor, i32};
use gradloom_models::hugging_face::Folder;
use gradloom_models::kv::{Decoder, PagedBatch, PagedKeyValues};
use gradloom_models::language_model::LanguageModel;
use gradloom_runtime::Device;
use std::path::Path;

#[test]
fn texts_in_pages_get_the_logits_that_each_gets_alone() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hugging_face/llama");
    let session = Folder::open(path).unwrap().session(&Device::cpu()).unwrap();
    let sizes = session.model().sizes();
    let bs = 4;
    let pool = PagedKeyValues::new(sizes, 20, bs, "pool");
    let program = |rows: usize, time: usize| {
        let inputs = [
            i32("ids", [rows, time]),
            i32("tables", [rows, 6]),
            i32("lengths", [rows]),
            i32("counts", [rows]),
        ];
        session
            .infer(inputs, |m, [ids, tables, lengths, counts]: [Tensor; 4]| {
                m.logits(pool.extend(m, ids, PagedBatch { tables, lengths, counts }))
            })
            .unwrap()
    };
    let mut p = program(2, 3);
    let tables = [1, 5, 3, 0, 0, 0, 2, 9, 4, 0, 0, 0];
    let text: Vec<Vec<i32>> = vec![vec![3, 7, 50, 2, 9, 11, 60, 33, 20], vec![9, 9, 1, 4, 80, 22, 17, 3, 5]];
    let mut last = Vec::new();
    for step in 0..3 {
        let at = step * 3;
        let ids: Vec<i32> = text.iter().flat_map(|t| t[at..at + 3].to_vec()).collect();
        last = p.run((&ids, &tables, &[at as i32; 2], &[3, 3])).unwrap();
    }
    for row in 0..2 {
        let mut d = Decoder::new(&session, "t").unwrap();
        d.reset().unwrap();
        let want = d.feed(&text[row]).unwrap();
        let got = &last[(row * 3 + 2) * 97..(row * 3 + 3) * 97];
        let diff = want.iter().zip(got).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(diff < 1e-4, "row {row}: {diff}");
    }
}
