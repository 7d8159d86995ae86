//! One test for each bug of ztensor's paged memory (its `graph/kv`).

use super::*;

#[test]
fn double_free() {
    let mut pages = pages(4, 2);
    let a = filled(&mut pages, &[1, 2, 3]).unwrap();
    pages.end(a).unwrap();
    let before = pages.clone();
    assert_eq!(pages.end(a), Err(PagesError::Unknown { sequence: a }));
    assert!(pages == before);
    // A block is never given to two sequences.
    let (b, c) = (filled(&mut pages, &[5, 6, 7]).unwrap(), filled(&mut pages, &[8, 9]).unwrap());
    assert!(pages.table(b).unwrap().iter().all(|block| !pages.table(c).unwrap().contains(block)));
    assert_eq!(pages.end(a), Err(PagesError::Unknown { sequence: a }), "its blocks have another owner now");
}

#[test]
fn foreign_block() {
    let (mut here, mut there) = (pages(4, 2), pages(4, 2));
    let (_ours, theirs) = (filled(&mut here, &[1]).unwrap(), filled(&mut there, &[1]).unwrap());
    let unknown = PagesError::Unknown { sequence: theirs };
    let (before, shape) = (here.clone(), BatchShape { rows: 1, time: 1, blocks: 1 });
    assert_eq!(here.end(theirs), Err(unknown.clone()));
    assert_eq!(here.truncate(theirs, 0), Err(unknown.clone()));
    assert_eq!(here.reserve(theirs, 1), Err(unknown.clone()));
    assert_eq!(here.commit(theirs, &[]), Err(unknown.clone()));
    assert_eq!(here.fork(theirs), Err(unknown.clone()));
    assert_eq!(here.table(theirs), Err(unknown.clone()));
    assert_eq!(here.tokens(theirs), Err(unknown.clone()));
    assert_eq!(here.room(theirs), Err(unknown.clone()));
    assert_eq!(here.batch_of(&[(theirs, 0)], shape), Err(unknown));
    assert!(here == before);
}

#[test]
fn append_failure_half_done() {
    // Covers every insufficient number of blocks, with a free, a cached and a shared last block.
    for capacity in 4..12 {
        let mut pages = pages(capacity, 2);
        let cached = filled(&mut pages, &[7, 7, 7, 7]).unwrap();
        pages.end(cached).unwrap();
        let a = filled(&mut pages, &[1, 2, 3]).unwrap();
        for shared in [false, true] {
            if shared {
                pages.fork(a).unwrap();
                pages.truncate(a, 3).unwrap();
            }
            // Positions to the end of the last block, unless it must be copied, and those in further blocks.
            let most = usize::from(!shared) + 2 * (capacity - 2) - usize::from(shared);
            let before = pages.clone();
            for tokens in [most + 1, most + 2, most + 100, usize::MAX] {
                let error = pages.reserve(a, tokens).unwrap_err();
                let PagesError::OutOfBlocks { wanted, free, cached } = error else { panic!("{error}") };
                assert_eq!((free, cached), (capacity - 4, 2));
                assert!(wanted > free + cached);
                assert!(pages == before, "{tokens} tokens over {capacity} blocks");
            }
            assert_eq!(pages.reserve(a, most).unwrap().is_some(), shared);
            assert_eq!(pages.counts(), counts(0, 0, capacity));
            pages.check();
            pages.truncate(a, 3).unwrap();
            pages = before;
        }
    }
}

#[test]
fn available_above_capacity() {
    let mut pages = pages(3, 2);
    let a = filled(&mut pages, &[1, 2, 3]).unwrap();
    let b = pages.fork(a).unwrap();
    for step in [Pages::end, Pages::end] {
        for sequence in [a, b] {
            let _ = step(&mut pages, sequence);
            let Counts { free, cached, used } = pages.counts();
            assert_eq!(free + cached + used, 3);
        }
    }
    assert_eq!(pages.counts(), counts(2, 1, 0));
}

#[test]
fn blocks_shorter_than_tokens() {
    // The tree contains only full blocks, not the rest of the text.
    let mut pages = pages(4, 4);
    for end in [1, 3, 4, 5, 7, 8] {
        let text = [1, 2, 3, 4, 5, 6, 7, 8];
        let a = filled(&mut pages, &text[..end]).unwrap();
        pages.end(a).unwrap();
        assert_eq!(pages.counts().cached, end / 4);
        let begun = pages.begin(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(begun.cached, end / 4 * 4);
        pages.end(begun.sequence).unwrap();
        pages.check();
    }
}

#[test]
fn prefix_longer_than_capacity() {
    let mut pages = pages(4, 2);
    let known = filled(&mut pages, &[1, 2, 3, 4]).unwrap();
    pages.end(known).unwrap();
    let before = pages.clone();
    let long: Vec<i32> = (10..20).collect();
    assert_eq!(
        filled(&mut pages, &long),
        Err(PagesError::OutOfBlocks { wanted: 5, free: 2, cached: 2 }),
        "it cannot be had"
    );
    assert!(pages == before, "nothing was evicted for it");

    // A text that fits exactly evicts all others and remains.
    let fits = filled(&mut pages, &long[..8]).unwrap();
    assert_eq!(pages.counts(), counts(0, 0, 4));
    assert_eq!(pages.reserve(fits, 1), Err(PagesError::OutOfBlocks { wanted: 1, free: 0, cached: 0 }));
    pages.end(fits).unwrap();
    assert_eq!(pages.begin(&long).cached, 8);
    pages.check();
}

#[test]
fn evicting_a_block_in_use() {
    let mut pages = pages(4, 2);
    let first = filled(&mut pages, &[1, 2, 3, 4]).unwrap();
    let second = pages.begin(&[1, 2, 9]).sequence;
    pages.end(first).unwrap();
    // The oldest block is used by `second`, but its continuation is not.
    assert_eq!(pages.counts(), counts(2, 1, 1));
    let kept = pages.table(second).unwrap().to_vec();
    let third = pages.begin_private();
    assert_eq!(
        pages.reserve(third, 7),
        Err(PagesError::OutOfBlocks { wanted: 4, free: 2, cached: 1 }),
        "three can be had"
    );
    pages.reserve(third, 6).unwrap();
    assert_eq!(pages.table(second).unwrap(), kept);
    assert!(!pages.table(third).unwrap().contains(&kept[0]));
    assert_eq!(pages.begin(&[1, 2, 3, 4, 5]).cached, 2, "what was not in use is gone");
    pages.check();
}

#[test]
fn tree_unconnected_to_the_pool() {
    let mut pages = pages(3, 1);
    let a = filled(&mut pages, &[1, 2, 3]).unwrap();
    let table = pages.table(a).unwrap().to_vec();
    pages.end(a).unwrap();
    assert_eq!(pages.counts(), counts(0, 3, 0), "the tree holds what the sequence released");
    // Eviction begins with the end of the text.
    let b = filled(&mut pages, &[9]).unwrap();
    assert_eq!(pages.table(b).unwrap(), [table[2]]);
    // A match makes its blocks used, so they cannot be evicted.
    let c = pages.begin(&[1, 2, 3]).sequence;
    assert_eq!(pages.table(c).unwrap(), &table[..2]);
    assert_eq!(pages.counts(), counts(0, 0, 3));
    assert_eq!(pages.reserve(c, 1), Err(PagesError::OutOfBlocks { wanted: 1, free: 0, cached: 0 }));
    pages.check();
}

#[test]
fn ties_of_time() {
    // All operations happen within one tick of a clock, but blocks are still evicted in order of release.
    for rotation in 0..4 {
        let mut pages = pages(4, 1);
        let mut ids: Vec<_> = (0..4).map(|token| (token, filled(&mut pages, &[token]).unwrap())).collect();
        ids.rotate_left(rotation);
        let blocks: Vec<_> = ids.iter().map(|&(_, id)| pages.table(id).unwrap()[0]).collect();
        ids.iter().for_each(|&(_, id)| pages.end(id).unwrap());
        // A lookup counts as a use even if nothing is computed.
        let again = pages.begin(&[ids[0].0, 9]);
        assert_eq!(again.cached, 1);
        pages.end(again.sequence).unwrap();
        let taken = pages.begin_private();
        let mut order = blocks.clone();
        order.rotate_left(1);
        pages.reserve(taken, 4).unwrap();
        assert_eq!(pages.table(taken).unwrap(), order);
    }
}
