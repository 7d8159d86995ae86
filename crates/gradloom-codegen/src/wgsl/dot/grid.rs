//! Which workgroup computes which tile.
//!
//! Workgroups are numbered along one axis, folded where an axis of a dispatch is too short. Part of the sum,
//! then batch, then tile: so workgroups that run together share what they read. Tiles go in bands of [`BAND`]
//! rows of tiles, column after column.

use super::problem::{scaled, sum};
use crate::cpu::DotProblem;
use crate::narrow::narrow;
use crate::wgsl::{Limits, Writer};

/// Tile rows in a band: the workgroups in flight should form a square rather than a line.
const BAND: usize = 8;

/// Tiles of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) batch: usize,
    pub(super) parts: usize,
}

impl Grid {
    pub(super) fn new(problem: &DotProblem, tile: (u32, u32), parts: u32) -> Self {
        Self {
            rows: problem.m.div_ceil(tile.0 as usize),
            columns: problem.n.div_ceil(tile.1 as usize),
            batch: problem.batch_count(),
            parts: parts as usize,
        }
    }

    fn tiles(&self) -> usize {
        self.rows * self.columns
    }

    fn count(&self) -> usize {
        self.tiles() * self.batch * self.parts
    }

    /// The dispatch.
    pub(super) fn workgroups(&self, limits: &Limits) -> [u32; 3] {
        fold(self.count(), limits)
    }

    /// Writes `batch`, `part`, `first_row`, `first_column`, `lhs_start` and `rhs_start`.
    pub(super) fn write(&self, writer: &mut Writer, problem: &DotProblem, tile: (u32, u32), limits: &Limits) {
        write_fold(writer, "group", self.count(), limits);
        // Where there is nothing to do, the text has to be valid all the same.
        let (tiles, batch, columns) = (self.tiles().max(1), self.batch.max(1), self.columns.max(1));
        let (per_batch, per_part) = (format!("group % {tiles}u"), format!("(group / {tiles}u) % {batch}u"));
        writer
            .line(format_args!("let tile = {};", if batch * self.parts == 1 { "group" } else { &per_batch }));
        writer.line(format_args!("let batch = {};", if batch == 1 { "0u" } else { &per_part }));
        let part = format!("group / {}u", tiles * batch);
        writer.line(format_args!("let part = {};", if self.parts == 1 { "0u" } else { &part }));
        let (row, column) = if self.rows == 1 || columns == 1 {
            (format!("tile / {}u", columns), format!("tile % {}u", columns))
        } else {
            writer.line(format_args!("let band = tile / {}u;", BAND * columns));
            writer.line(format_args!("let in_band = tile % {}u;", BAND * columns));
            writer.line(match self.rows.is_multiple_of(BAND) {
                true => format!("let band_rows = {BAND}u;"),
                false => format!("let band_rows = min({BAND}u, {}u - band * {BAND}u);", self.rows),
            });
            (format!("band * {BAND}u + in_band % band_rows"), "in_band / band_rows".into())
        };
        writer.line(format_args!("let first_row = ({row}) * {}u;", tile.0));
        writer.line(format_args!("let first_column = ({column}) * {}u;", tile.1));
        let (lhs, rhs) = batch_starts(problem);
        writer.line(format_args!("let lhs_start = {lhs};"));
        writer.line(format_args!("let rhs_start = {rhs};"));
    }
}

/// Workgroups for `count` of them: along x, then y, then z.
pub(super) fn fold(count: usize, limits: &Limits) -> [u32; 3] {
    let most = limits.workgroups as usize;
    let y = count.div_ceil(most);
    let z = y.div_ceil(most);
    [count.min(most), if z > 1 { most } else { y.max(1) }, z.max(1)].map(narrow)
}

/// Writes `let name`, the workgroup's number, and leaves what is beyond `count`.
pub(super) fn write_fold(writer: &mut Writer, name: &str, count: usize, limits: &Limits) {
    let [x, y, z] = fold(count, limits);
    let row = (y > 1).then(|| format!("workgroup.y * {x}u"));
    let plane = (z > 1).then(|| format!("workgroup.z * {}u", u64::from(x) * u64::from(y)));
    writer.line(format_args!("let {name} = {};", sum([Some("workgroup.x".into()), row, plane])));
    if (x as usize) * (y as usize) * (z as usize) > count {
        writer.block(format_args!("if ({name} >= {count}u)"), |writer| writer.line("return;"));
    }
}

/// Expressions for the operands' first elements at index `batch`.
fn batch_starts(problem: &DotProblem) -> (String, String) {
    let offset = |offset: usize| (offset != 0).then(|| format!("{offset}u"));
    let mut lhs = vec![offset(problem.lhs.offset)];
    let mut rhs = vec![offset(problem.rhs.offset)];
    let mut inner = 1;
    for (i, axis) in problem.batch.iter().enumerate().rev() {
        let quotient = if inner == 1 { "batch".into() } else { format!("(batch / {inner}u)") };
        let position = if i == 0 { quotient } else { format!("({quotient} % {}u)", axis.extent) };
        lhs.push(scaled(&position, axis.lhs_stride));
        rhs.push(scaled(&position, axis.rhs_stride));
        inner *= axis.extent;
    }
    (sum(lhs), sum(rhs))
}
