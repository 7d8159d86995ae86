//! Tests of each operation with boundary sizes, and of the error messages.

use super::*;

#[test]
fn pools_have_at_least_one_block_of_one_token() {
    assert_eq!(Pages::new(2, 0).unwrap_err(), PagesError::BlockSize);
    for blocks in [0, 1] {
        assert_eq!(Pages::new(blocks, 1).unwrap_err(), PagesError::NoCapacity { blocks });
    }
    let (most, what) = (i32::MAX as usize, "a pool");
    for (rows, columns) in [(most + 1, 1), (2, most), (usize::MAX, usize::MAX)] {
        let error = Pages::new(rows, columns).unwrap_err();
        assert_eq!(error, PagesError::TooLarge { what, rows, columns });
    }
    let largest = Pages::new(most, 1).unwrap();
    assert_eq!((largest.capacity(), largest.counts()), (most - 1, counts(most - 1, 0, 0)));

    let mut least = pages(1, 1);
    let a = filled(&mut least, &[7]).unwrap();
    assert_eq!(least.counts(), counts(0, 0, 1));
    assert!(least.reserve(a, 1).is_err());
    least.end(a).unwrap();
    let b = least.begin(&[7]);
    assert_eq!(b.cached, 0, "the last token of a prompt is computed");
    assert_eq!(append(&mut least, b.sequence, &[7]), Ok(None), "in the place of the cached block");
    assert_eq!(least.begin(&[7, 8]).cached, 1);
}

#[test]
fn empty_things_are_nothing() {
    let mut pages = pages(2, 2);
    let begun = pages.begin(&[]);
    assert_eq!(begun.cached, 0);
    let a = begun.sequence;
    assert_eq!(pages.reserve(a, 0), Ok(None));
    assert_eq!(pages.commit(a, &[]), Ok(()));
    assert_eq!(pages.truncate(a, 0), Ok(()));
    let b = pages.fork(a).unwrap();
    assert_ne!(a, b);
    assert_eq!((pages.tokens(b).unwrap(), pages.table(b).unwrap()), (&[][..], &[][..]));
    assert_eq!(pages.sequences().collect::<Vec<_>>(), [a, b]);
    pages.end(a).unwrap();
    pages.end(b).unwrap();
    assert_eq!(pages.counts(), counts(2, 0, 0));
    pages.check();
}

#[test]
fn prompts_find_whole_blocks_short_of_their_last_token() {
    let mut pages = pages(8, 2);
    filled(&mut pages, &[1, 2, 3, 4, 5]).unwrap();
    let cases: [(&[i32], usize); 9] = [
        (&[1], 0),
        (&[1, 2], 0),
        (&[1, 2, 3], 2),
        (&[1, 2, 3, 4], 2),
        (&[1, 2, 3, 4, 5, 6, 7], 4),
        (&[1, 2, 4, 3, 5], 2),
        (&[3, 4, 1, 2, 5], 0),
        (&[0, 1, 2, 3, 4], 0),
        (&[1, 2, i32::MIN, 4, 5], 2),
    ];
    for (prompt, cached) in cases {
        let begun = pages.begin(prompt);
        assert_eq!(begun.cached, cached, "{prompt:?}");
        assert_eq!(pages.tokens(begun.sequence).unwrap(), &prompt[..cached]);
        pages.check();
    }
}

#[test]
fn prompts_are_computed_in_chunks() {
    let prompt: Vec<i32> = (0..23).collect();
    for chunk in 1..=prompt.len() {
        let mut pages = pages(6, 4);
        let a = pages.begin(&prompt).sequence;
        for (i, tokens) in prompt.chunks(chunk).enumerate() {
            assert_eq!(append(&mut pages, a, tokens), Ok(None));
            // Computed blocks can be found before the rest of the prompt is computed.
            let other = pages.begin(&prompt);
            assert_eq!(other.cached, prompt.len().min((i + 1) * chunk) / 4 * 4);
            pages.end(other.sequence).unwrap();
        }
        assert_eq!((pages.tokens(a).unwrap(), pages.room(a)), (&prompt[..], Ok(1)));
    }
}

#[test]
fn reserving_twice_is_reserving_the_larger() {
    let mut pages = pages(4, 2);
    let a = pages.begin(&[]).sequence;
    for (tokens, room) in [(1, 2), (2, 2), (3, 4), (1, 4), (4, 4)] {
        assert_eq!(pages.reserve(a, tokens), Ok(None));
        assert_eq!(pages.room(a), Ok(room));
    }
    assert_eq!(pages.commit(a, &[0; 5]), Err(PagesError::NoRoom { sequence: a, tokens: 5, room: 4 }));
    pages.commit(a, &[0; 3]).unwrap();
    pages.truncate(a, 3).unwrap();
    assert_eq!(pages.commit(a, &[0]), Err(PagesError::NoRoom { sequence: a, tokens: 1, room: 0 }));
    assert_eq!(pages.truncate(a, 4), Err(PagesError::TooShort { sequence: a, length: 3, wanted: 4 }));
    pages.check();
}

#[test]
fn forks_copy_the_block_that_they_write_to() {
    let mut pages = pages(6, 2);
    let a = filled(&mut pages, &[1, 2, 3]).unwrap();
    let b = pages.fork(a).unwrap();
    assert_eq!(pages.counts(), counts(4, 0, 2));
    // The space in the last block stays with the first sequence, which writes in place even if it reserves
    // more.
    assert_eq!(pages.reserve(a, 2), Ok(None));
    assert_eq!(pages.reserve(b, 0), Ok(None), "nothing is written");
    let shared = pages.table(a).unwrap()[1];
    assert_eq!(append(&mut pages, a, &[4]), Ok(None));
    pages.truncate(a, 4).unwrap();
    let copy = append(&mut pages, b, &[5]).unwrap().unwrap();
    assert_eq!((copy.from, copy.to), (shared, pages.table(b).unwrap()[1]));
    assert_eq!(pages.table(a).unwrap()[1], shared);
    assert_eq!(pages.counts(), counts(3, 0, 3));
    // At the end of a block, nothing needs to be copied.
    let c = pages.fork(b).unwrap();
    assert_eq!(append(&mut pages, b, &[6]), Ok(None));
    assert_eq!(append(&mut pages, c, &[7]), Ok(None));
    assert_eq!(pages.table(b).unwrap()[..2], pages.table(c).unwrap()[..2]);
    // The last user of a block can write in place again.
    let d = pages.fork(c).unwrap();
    pages.end(c).unwrap();
    assert_eq!(append(&mut pages, d, &[8]), Ok(None));
}

#[test]
fn cut_texts_go_on_beside_what_is_cached() {
    let mut pages = pages(4, 2);
    let a = filled(&mut pages, &[1, 2, 3, 4]).unwrap();
    // The last block has no continuation, so it is overwritten and removed from the tree.
    pages.truncate(a, 3).unwrap();
    assert_eq!(append(&mut pages, a, &[9]), Ok(None));
    assert_eq!(pages.counts(), counts(2, 0, 2));
    assert_eq!(pages.begin(&[1, 2, 3, 4, 5]).cached, 2);
    // A cached text continues the first block, so it is kept, and a copy is written.
    pages.truncate(a, 1).unwrap();
    let [first] = *pages.table(a).unwrap() else { panic!("one block") };
    let copy = append(&mut pages, a, &[8]).unwrap().unwrap();
    assert_eq!(copy.from, first);
    assert_eq!(pages.begin(&[1, 2, 3, 9, 5]).cached, 4);
    assert_eq!(pages.begin(&[1, 8, 5]).cached, 2);
    pages.check();
}

#[test]
fn a_text_that_is_computed_twice_is_kept_once() {
    let mut pages = pages(8, 2);
    let prompt = [1, 2, 3, 4, 5];
    let [a, b] = [pages.begin(&prompt), pages.begin(&prompt)].map(|begun| begun.sequence);
    let private = pages.begin_private();
    for sequence in [a, b, private] {
        pages.reserve(sequence, 4).unwrap();
    }
    assert_eq!(pages.counts(), counts(2, 0, 6));
    for sequence in [a, b, private] {
        pages.commit(sequence, &prompt[..4]).unwrap();
        pages.check();
    }
    assert_eq!(pages.table(a), pages.table(b));
    assert_eq!(pages.counts(), counts(4, 0, 4), "the private one keeps its own");
    for sequence in [a, b, private] {
        pages.end(sequence).unwrap();
    }
    assert_eq!(pages.counts(), counts(6, 2, 0), "and leaves nothing");
}

#[test]
fn new_weights_forget_all_prefixes() {
    let mut pages = pages(6, 1);
    let a = filled(&mut pages, &[1, 2]).unwrap();
    let b = filled(&mut pages, &[1, 3, 4]).unwrap();
    pages.end(b).unwrap();
    assert_eq!(pages.counts(), counts(2, 2, 2));
    pages.forget_prefixes();
    pages.check();
    assert_eq!(pages.counts(), counts(4, 0, 2));
    append(&mut pages, a, &[5]).unwrap();
    pages.end(a).unwrap();
    assert_eq!(pages.counts(), counts(6, 0, 0), "what was computed with the old weights is not kept");
    let c = filled(&mut pages, &[1, 2]).unwrap();
    pages.end(c).unwrap();
    assert_eq!(pages.counts(), counts(4, 2, 0));
}

#[test]
fn batches_are_ragged() {
    let mut pages = pages(6, 2);
    let a = filled(&mut pages, &[1, 2, 3]).unwrap();
    let b = pages.begin(&[5, 6, 7]).sequence;
    pages.reserve(a, 2).unwrap();
    pages.reserve(b, 3).unwrap();
    // Blocks are allocated in order: 1 and 2 for the text of `a`, 3 for its space, 4 and 5 for `b`.
    let shape = BatchShape { rows: 3, time: 4, blocks: 3 };
    let batch = pages.batch_of(&[(b, 3), (a, 2)], shape).unwrap();
    let tables = vec![4, 5, 0, 1, 2, 3, 0, 0, 0];
    assert_eq!(batch, Batch { tables, starts: vec![0, 3, 0], lengths: vec![3, 5, 0] });
    // This step follows one that computes one token of each sequence.
    let ahead = [Some((b, 1..3)), Some((a, 1..2))];
    let ahead = pages.batch(&ahead, BatchShape { time: 2, ..shape }).unwrap();
    assert_eq!(ahead, Batch { starts: vec![1, 4, 0], ..batch });
    // An empty row has a table of padding blocks.
    let ahead = pages.batch(&[None, Some((a, 1..2))], shape).unwrap();
    let tables = vec![0, 0, 0, 1, 2, 3, 0, 0, 0];
    assert_eq!(ahead, Batch { tables, starts: vec![0, 4, 0], lengths: vec![0, 5, 0] });
    // Blocks of reserved space that the step does not use are not listed.
    let batch = pages.batch_of(&[(a, 1)], BatchShape { rows: 1, time: 1, blocks: 2 }).unwrap();
    assert_eq!((batch.tables, batch.lengths), (vec![1, 2], vec![4]));
    // A row without new tokens needs no space, and an empty batch is valid.
    let batch = pages.batch_of(&[(a, 0)], BatchShape { rows: 1, time: 0, blocks: 2 }).unwrap();
    assert_eq!((batch.starts, batch.lengths), (vec![3], vec![3]));
    let none = Batch { tables: vec![], starts: vec![], lengths: vec![] };
    assert_eq!(pages.batch_of(&[], BatchShape { rows: 0, time: 1, blocks: 1 }), Ok(none));
}

#[test]
fn batches_refuse_what_does_not_fit() {
    let mut pages = pages(4, 2);
    let a = filled(&mut pages, &[1, 2, 3]).unwrap();
    let b = pages.fork(a).unwrap();
    let shape = BatchShape { rows: 2, time: 1, blocks: 2 };
    assert_eq!(pages.batch_of(&[(a, 1), (a, 1)], shape), Err(PagesError::Twice { sequence: a }));
    assert_eq!(
        pages.batch_of(&[(a, 1), (b, 1)], shape),
        Err(PagesError::NoRoom { sequence: b, tokens: 1, room: 0 }),
        "it would write to the block of the other"
    );
    assert_eq!(
        pages.batch(&[Some((a, 1..2))], shape),
        Err(PagesError::NoRoom { sequence: a, tokens: 2, room: 1 }),
        "the step before needs room, too"
    );
    let too_small = |shape| match pages.batch_of(&[(a, 1)], shape).unwrap_err() {
        PagesError::Shape { axis, needed, given } => (axis, needed, given),
        error => panic!("{error}"),
    };
    assert_eq!(too_small(BatchShape { rows: 0, ..shape }), ("rows", 1, 0));
    assert_eq!(too_small(BatchShape { time: 0, ..shape }), ("tokens in a row", 1, 0));
    assert_eq!(too_small(BatchShape { blocks: 1, ..shape }), ("blocks in a row", 2, 1));
    for shape in [BatchShape { rows: usize::MAX, ..shape }, BatchShape { rows: 0, time: 1 << 40, blocks: 1 }]
    {
        assert!(matches!(pages.batch_of(&[], shape), Err(PagesError::TooLarge { what: "a batch", .. })));
    }
}

#[test]
fn copies_at_once_have_the_effect_of_copies_in_order() {
    let mut random = Random(3, 0);
    for _ in 0..2000 {
        let blocks = 2 + random.below(5);
        let mut block = || BlockId(random.below(blocks) as u32);
        let copies: Vec<_> = (0..blocks).map(|_| BlockCopy { from: block(), to: block() }).collect();
        let start: Vec<usize> = (0..blocks).collect();
        let (mut in_order, mut at_once) = (start.clone(), start.clone());
        for copy in &copies {
            in_order[copy.to.index()] = in_order[copy.from.index()];
        }
        for copy in BlockCopy::at_once(&copies) {
            at_once[copy.to.index()] = start[copy.from.index()];
        }
        assert_eq!(in_order, at_once, "{copies:?}");
    }
    assert_eq!(BlockCopy::at_once(&[]), []);
}

#[test]
fn errors_name_the_thing_and_the_remedy() {
    let mut pages = pages(1, 2);
    let a = filled(&mut pages, &[1, 2]).unwrap();
    let error = pages.reserve(a, 3).unwrap_err();
    assert_eq!(error.to_string(), "2 more blocks are needed, but 0 are free and 0 can be evicted");
    assert_eq!(error.remedy(), "end or truncate a sequence and try again, or take a larger pool");
    let error = pages.commit(a, &[3]).unwrap_err();
    assert_eq!(error.to_string(), format!("{a} has room for 0 more tokens, not for 1"));
    assert_eq!(error.remedy(), "reserve room for the tokens first");
    let error = Pages::new(1, 16).unwrap_err();
    assert_eq!(error.to_string(), "a pool of 1 blocks has none for tokens");
}
