//! An operand's tile on its way from the buffer through registers to workgroup memory.
//!
//! The tile keeps the operand's own order, with neighbours along the axis that is contiguous in memory side
//! by side, so nothing is transposed on the way. Its rows are padded by one where that keeps the banks of
//! workgroup memory apart.

use super::problem::{Along, Side, scaled, sum};
use crate::wgsl::Writer;

/// A tile of `extent` rows (or columns) by `depth` terms.
pub(super) struct Staged<'a> {
    pub(super) side: Side<'a>,
    pub(super) extent: u32,
    pub(super) depth: u32,
    /// Whether the tile holds `f16`.
    pub(super) half: bool,
    /// Rows that a thread reads together; they are stored this far apart from each other, so that
    /// neighbouring threads read neighbours.
    pub(super) strip: u32,
    pub(super) threads: u32,
    pub(super) buffers: u32,
}

/// Writes the loop over the tiles of both operands, from `first_term` to `end_term`: while `body` works on
/// one tile, which starts at items `lhs_buffer` and `rhs_buffer`, the next one is loaded into registers.
pub(super) fn pipeline(
    writer: &mut Writer,
    sides: [&Staged<'_>; 2],
    depth: u32,
    body: impl FnOnce(&mut Writer),
) {
    let double = sides[0].buffers == 2;
    sides[0].positions(writer, "first_row");
    sides[1].positions(writer, "first_column");
    sides.iter().for_each(|side| side.fetch(writer, "first_term"));
    if double {
        sides.iter().for_each(|side| side.store(writer, "0u"));
        writer.line("workgroupBarrier();");
        writer.line("var buffer = 0u;");
    }
    writer.open(format_args!("for (var term = first_term; term < end_term; term += {depth}u)"));
    if !double {
        sides.iter().for_each(|side| side.store(writer, "0u"));
        writer.line("workgroupBarrier();");
    }
    let more = format!("if (term + {depth}u < end_term)");
    writer.block(&more, |writer| {
        writer.line(format_args!("let next_term = term + {depth}u;"));
        sides.iter().for_each(|side| side.fetch(writer, "next_term"));
    });
    for side in sides {
        let start = if double { format!("buffer * {}u", side.size()) } else { "0u".into() };
        writer.line(format_args!("let {}_buffer = {start};", side.side.name));
    }
    body(writer);
    if double {
        writer.line("buffer = 1u - buffer;");
        writer.block(&more, |writer| {
            sides.iter().for_each(|side| side.store(writer, &format!("buffer * {}u", side.size())));
        });
    }
    writer.line("workgroupBarrier();");
    writer.close();
}

impl Staged<'_> {
    /// Type of four neighbours.
    fn item(&self) -> &'static str {
        if self.half { "vec4<f16>" } else { "vec4<f32>" }
    }

    /// Distance between rows along the contiguous axis in workgroup memory, in items.
    pub(super) fn pitch(&self) -> u32 {
        match (self.side.along, self.half) {
            (Along::Contract, false) => self.depth / 4 + 1,
            // Reads of vectors from one such row never meet in a bank.
            (Along::Free, false) => self.extent / 4,
            // Cooperative loads take 16 bytes of several rows at once.
            (Along::Contract, true) => self.depth / 4 + 2,
            (Along::Free, true) => self.extent / 4 + 2,
        }
    }

    /// Items of one buffer.
    pub(super) fn size(&self) -> u32 {
        self.pitch()
            * match self.side.along {
                Along::Contract => self.extent,
                Along::Free => self.depth,
            }
    }

    /// Where row `row`, an expression, of a tile with contiguous terms stands: strips are dealt out.
    fn dealt(&self, row: &str) -> String {
        match self.strip {
            1 => row.to_string(),
            strip => format!("({row} % {strip}u) * {}u + {row} / {strip}u", self.extent / strip),
        }
    }

    /// Declares the tile in workgroup memory.
    pub(super) fn declare(&self, writer: &mut Writer) {
        let (name, count) = (self.side.name, self.buffers * self.size());
        writer.line(format_args!("var<workgroup> {name}_tile: array<{}, {count}>;", self.item()));
    }

    fn items(&self) -> u32 {
        self.extent * self.depth / 4
    }

    fn rounds(&self) -> u32 {
        self.items().div_ceil(self.threads)
    }

    /// The condition under which the thread has an item in the round, where not every thread has.
    fn active(&self, round: u32) -> Option<String> {
        let all = (round + 1) * self.threads <= self.items();
        (!all).then(|| format!("thread + {}u < {}u", round * self.threads, self.items()))
    }

    fn contract_edge(&self) -> bool {
        !self.side.contract.is_multiple_of(self.depth as usize)
    }

    fn free_edge(&self) -> bool {
        !self.side.free.is_multiple_of(self.extent as usize)
    }

    /// Writes where this thread's items come from and go to: constants of the loop over tiles.
    pub(super) fn positions(&self, writer: &mut Writer, first: &str) {
        let name = self.side.name;
        for round in 0..self.rounds() {
            let number =
                if round == 0 { "thread".into() } else { format!("(thread + {}u)", round * self.threads) };
            let along = match self.side.along {
                Along::Contract => self.depth / 4,
                Along::Free => self.extent / 4,
            };
            let (position, other) = (format!("{number} % {along}u"), format!("{number} / {along}u"));
            writer.line(format_args!("let {name}_along_{round} = {position};"));
            writer.line(format_args!("let {name}_other_{round} = {other};"));
            let (free, contract, row) = match self.side.along {
                Along::Contract => (
                    format!("{first} + {name}_other_{round}"),
                    format!("{name}_along_{round} * 4u"),
                    self.dealt(&format!("{name}_other_{round}")),
                ),
                Along::Free => (
                    format!("{first} + {name}_along_{round} * 4u"),
                    format!("{name}_other_{round}"),
                    format!("{name}_other_{round}"),
                ),
            };
            writer.line(format_args!("let {name}_free_{round} = {free};"));
            writer.line(format_args!("let {name}_term_{round} = {contract};"));
            let slot = sum([
                scaled(&format!("({row})"), self.pitch() as usize),
                Some(format!("{name}_along_{round}")),
            ]);
            writer.line(format_args!("let {name}_slot_{round} = {slot};"));
            writer.line(format_args!("var {name}_next_{round} = {}();", self.item()));
        }
    }

    /// Writes the loads of the tile of terms from `term` on, an expression, into registers.
    pub(super) fn fetch(&self, writer: &mut Writer, term: &str) {
        let name = self.side.name;
        for round in 0..self.rounds() {
            writer.when(self.active(round), |writer| {
                let value = self.value(round, term);
                writer.line(format_args!("{name}_next_{round} = {value};"));
            });
        }
    }

    /// Writes the stores from registers into the buffer that starts at item `start`, an expression.
    pub(super) fn store(&self, writer: &mut Writer, start: &str) {
        let name = self.side.name;
        for round in 0..self.rounds() {
            writer.when(self.active(round), |writer| {
                writer
                    .line(format_args!("{name}_tile[{start} + {name}_slot_{round}] = {name}_next_{round};"));
            });
        }
    }

    /// The item of a round, zero where there are no terms; rows and columns beyond the operand repeat its
    /// last ones.
    fn value(&self, round: u32, term: &str) -> String {
        let item = self.item();
        let inside = |value: String, lane: u32, zero: &str| match self.contract_edge() {
            true => format!("select({zero}, {value}, {})", self.inside(round, term, lane)),
            false => value,
        };
        if self.side.fours {
            let four = self.side.four(&self.index(round, term, 0, 4), self.half);
            return inside(four, 0, &format!("{item}()"));
        }
        let lanes =
            (0..4).map(|lane| inside(self.side.element(&self.index(round, term, lane, 1)), lane, "0.0"));
        let lanes = lanes.collect::<Vec<_>>().join(", ");
        if self.half { format!("vec4<f16>(vec4<f32>({lanes}))") } else { format!("vec4<f32>({lanes})") }
    }

    /// Index of a lane of the round's item; clamped, so that `width` elements from there exist.
    fn index(&self, round: u32, term: &str, lane: u32, width: u32) -> String {
        let name = self.side.name;
        let (free_lane, term_lane) = match self.side.along {
            Along::Free => (lane, 0),
            Along::Contract => (0, lane),
        };
        let (free_width, term_width) = match self.side.along {
            Along::Free => (width, 1),
            Along::Contract => (1, width),
        };
        let plus = |base: String, lane: u32| if lane == 0 { base } else { format!("{base} + {lane}u") };
        let clamp = |base: String, edge: bool, last: usize| match edge {
            true => format!("min({base}, {last}u)"),
            false => format!("({base})"),
        };
        let free = plus(format!("{name}_free_{round}"), free_lane);
        let free = clamp(free, self.free_edge(), self.side.free.saturating_sub(free_width as usize));
        let terms = plus(format!("{term} + {name}_term_{round}"), term_lane);
        let terms =
            clamp(terms, self.contract_edge(), self.side.contract.saturating_sub(term_width as usize));
        sum([
            Some(format!("{name}_start")),
            scaled(&free, self.side.view.free_stride),
            scaled(&terms, self.side.view.contract_stride),
        ])
    }

    /// Whether a lane of the round's item is a term of the sum.
    fn inside(&self, round: u32, term: &str, lane: u32) -> String {
        let name = self.side.name;
        let lane = if self.side.along == Along::Contract { lane } else { 0 };
        format!("{term} + {name}_term_{round} + {lane}u < {}u", self.side.contract)
    }
}
