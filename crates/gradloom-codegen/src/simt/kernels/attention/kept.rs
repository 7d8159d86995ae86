//! Dropout: a bit for each query and key says whether the key's share of the query's output is kept.

use super::super::{Builder, Value};
use super::rows::Rows;
use super::{Attention, Head};
use crate::narrow::narrow;
use gradloom_core::ir::CompareOp;

/// Bits of the kept keys, and the factor on their shares.
#[derive(Clone, Copy)]
struct Kept<'k, 'b> {
    k: &'k Builder,
    /// Words of 32 keys, one row per query.
    words: Rows<'k, 'b>,
    factor: f32,
}

impl<'k, 'b> Attention<'k, 'b> {
    /// Returns a key's share of a query's output after dropout, given the share before it. Queries and keys
    /// beyond the last have any share.
    pub(super) fn share(
        &self,
        of: Head<'k>,
        query: Value<'k>,
        key: Value<'k>,
        share: Value<'k>,
    ) -> Value<'k> {
        let Some(kept) = self.kept() else { return share };
        kept.applied(self.bits(kept, of, query, key), 0, share)
    }

    /// Returns the shares after dropout of four keys, whose positions are `columns` after key `first`, as
    /// [`Attention::share`] does for one. The columns are those of a matrix of 16 columns.
    pub(super) fn shares(
        &self,
        of: Head<'k>,
        query: Value<'k>,
        (first, columns): (Value<'k>, [u32; 4]),
        shares: [Value<'k>; 4],
    ) -> [Value<'k>; 4] {
        let Some(kept) = self.kept() else { return shares };
        // Without a window, matrices start at multiples of 16, so that their keys have the same word.
        if self.problem.spec.window.is_none() {
            let bits = self.bits(kept, of, query, first);
            return [0, 1, 2, 3].map(|i: usize| kept.applied(bits, columns[i], shares[i]));
        }
        [0, 1, 2, 3].map(|i: usize| self.share(of, query, first + columns[i], shares[i]))
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels compute in f32")]
    fn kept(&self) -> Option<Kept<'k, 'b>> {
        let [.., read] = self.problem.spec.extra_positions();
        let factor = self.problem.spec.dropout? as f32;
        Some(Kept { k: self.k, words: self.operand(read?), factor })
    }

    /// Returns the word of a query with the bit of a key, shifted so that this bit is the lowest.
    fn bits(&self, kept: Kept<'k, 'b>, of: Head<'k>, query: Value<'k>, key: Value<'k>) -> Value<'k> {
        let k = self.k;
        let last = |extent: usize| k.u32(narrow(extent.max(1)) - 1);
        let start = kept.words.start(of, query.min(last(self.problem.queries)));
        kept.words.load(start, (key / 32).min(last(kept.words.width()))) >> (key % 32)
    }
}

impl<'k> Kept<'k, '_> {
    /// Returns a share multiplied by the factor if bit `number` is 1, else 0.
    fn applied(&self, bits: Value<'k>, number: u32, share: Value<'k>) -> Value<'k> {
        let k = self.k;
        let is_kept = (bits & (1 << number)).compare(CompareOp::Ne, k.u32(0));
        is_kept.select(share * k.f32(self.factor), k.f32(0.0))
    }
}
