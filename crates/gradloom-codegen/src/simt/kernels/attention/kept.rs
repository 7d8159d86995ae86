//! Dropout: a bit for each query and key says whether the key's share of the query's output is kept.

use super::super::{Builder, Value};
use super::matrices::{Own, Place, SIDE};
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

/// Bits of an invocation's elements of a block of scores whose rows are keys.
pub(super) struct KeptOfKeys<'k, 'b> {
    kept: Kept<'k, 'b>,
    /// Bit `c % 8 + c / 8 * 16` is that of the upper row's element in the invocation's column `c`, and the
    /// bit 8 above it that of the lower row's.
    bits: Value<'k>,
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

    /// Loads the bits of an invocation's elements of `matrices` matrices of scores, whose rows are the
    /// workgroup's keys and whose columns are the queries from query `first` on. Without dropout, returns
    /// `None`.
    pub(super) fn kept_of_keys(
        &self,
        of: Head<'k>,
        (place, own): (&Place<'k>, &Own<'k>),
        (first, matrices): (Value<'k>, u32),
    ) -> Option<KeptOfKeys<'k, 'b>> {
        let kept = self.kept()?;
        assert!(matrices <= KeptOfKeys::MATRICES, "the bits of an invocation are one word");
        let key = own.first + place.rows[0];
        // Matrices of keys start at multiples of 16, so that the lower row's key, 8 after the upper row's,
        // has the same word.
        let both = 1 | 1 << KeptOfKeys::number(1, 0);
        let bits = (0..matrices * 4).map(|column| {
            let query = first + (place.column + (column / 4 * SIDE + place.columns[column as usize % 4]));
            (self.bits(kept, of, query, key) & both) << KeptOfKeys::number(0, column)
        });
        Some(KeptOfKeys { kept, bits: bits.reduce(|all, bits| all | bits)? })
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

impl<'k> KeptOfKeys<'k, '_> {
    /// Maximum number of matrices of which an invocation's elements fit into a word.
    const MATRICES: u32 = 4;

    /// Returns the number of the bit of a column's element in the upper (0) or lower (1) row.
    fn number(which: u32, column: u32) -> u32 {
        column % 8 + column / 8 * 16 + which * 8
    }

    /// Returns the share after dropout of element `i` of the four in the upper (0) or lower (1) row of matrix
    /// `j`.
    pub(super) fn share(&self, which: u32, (j, i): (u32, u32), share: Value<'k>) -> Value<'k> {
        self.kept.applied(self.bits, Self::number(which, j * 4 + i), share)
    }
}
