//! The product of register tiles, element by element: for devices that take vectors apart.
//!
//! Such a device spends its time on loads: on running them, and, as each is many instructions, on compiling
//! them. So there is one load for each row and column of a thread, in a loop over single terms, and the
//! results are finished in a loop over an array.

use super::grid::Grid;
use super::portable::{finish, header};
use super::problem::{DotKernel, Scalar, Side, scaled, sum};
use super::tile::{Choice, Staging, Tile};
use crate::wgsl::{Limits, Shader, Writer};

/// Whether this is how to compute a product.
pub(super) fn suits(kernel: &DotKernel<'_>, tile: &Tile, choice: &Choice) -> bool {
    tile.staging == Staging::Registers && choice.parts == 1 && kernel.epilogue.lanes == 1
}

/// The shader for the product.
pub(super) fn product(kernel: &DotKernel<'_>, tile: &Tile, limits: &Limits) -> Shader {
    let problem = kernel.problem;
    let grid = Grid::new(problem, (tile.m, tile.n), 1);
    let mut writer = Writer::new();
    if [kernel.lhs, kernel.rhs].iter().any(|operand| operand.scalar == Scalar::F16) {
        writer.line("enable f16;");
    }
    header(&mut writer, kernel, 1);
    let Tile { m, n, thread_m, thread_n, .. } = *tile;
    writer.line(format_args!("// Tiles of {m} x {n}, {thread_m} x {thread_n} a thread."));
    writer.line("");
    writer.line(format_args!("@compute @workgroup_size({})", tile.threads()));
    writer.line("fn main(");
    writer.line("    @builtin(workgroup_id) workgroup: vec3<u32>,");
    writer.line("    @builtin(local_invocation_index) thread: u32,");
    writer.open(")");
    grid.write(&mut writer, problem, (m, n), limits);
    let across = n / thread_n;
    let lhs = Axis {
        side: Side::lhs(kernel),
        thread: format!("thread / {across}u"),
        first: "first_row",
        each: thread_m,
        tile: m,
    };
    let rhs = Axis {
        side: Side::rhs(kernel),
        thread: format!("thread % {across}u"),
        first: "first_column",
        each: thread_n,
        tile: n,
    };
    sums(&mut writer, kernel, [&lhs, &rhs]);
    results(&mut writer, kernel, [&lhs, &rhs]);
    writer.close();
    Shader { source: writer.finish(), workgroups: grid.workgroups(limits) }
}

/// A thread's rows of the left operand, or columns of the right one.
struct Axis<'a> {
    side: Side<'a>,
    /// This thread's place along the axis.
    thread: String,
    /// Where the tile begins.
    first: &'static str,
    /// Rows (or columns) of a thread, and of the tile.
    each: u32,
    tile: u32,
}

impl Axis<'_> {
    /// Row (or column) `i` of this thread.
    fn position(&self, i: &str) -> String {
        format!("{} + {}_thread * {}u + {i}", self.first, self.side.name, self.each)
    }

    fn edge(&self) -> bool {
        !self.side.free.is_multiple_of(self.tile as usize)
    }

    /// Names where each row begins; those beyond the last begin where that does.
    fn starts(&self, writer: &mut Writer) {
        let name = self.side.name;
        for i in 0..self.each {
            let position = self.position(&format!("{i}u"));
            let position = match self.edge() {
                true => format!("min({position}, {}u)", self.side.free.saturating_sub(1)),
                false => format!("({position})"),
            };
            let at = sum([Some(format!("{name}_start")), scaled(&position, self.side.view.free_stride)]);
            writer.line(format_args!("let {name}_at_{i} = {at};"));
        }
    }

    /// Loads a term of each row.
    fn load(&self, writer: &mut Writer) {
        let name = self.side.name;
        let step = scaled("term", self.side.view.contract_stride);
        for i in 0..self.each {
            let value = self.side.element(&sum([Some(format!("{name}_at_{i}")), step.clone()]));
            writer.line(format_args!("let {name}_{i} = {value};"));
        }
    }
}

/// Writes the sums, `sum_{row}_{column}`.
fn sums(writer: &mut Writer, kernel: &DotKernel<'_>, [lhs, rhs]: [&Axis<'_>; 2]) {
    for axis in [lhs, rhs] {
        writer.line(format_args!("let {}_thread = {};", axis.side.name, axis.thread));
    }
    for i in 0..lhs.each {
        (0..rhs.each).for_each(|j| writer.line(format_args!("var sum_{i}_{j} = 0.0f;")));
    }
    let k = kernel.problem.k;
    if k == 0 {
        return;
    }
    lhs.starts(writer);
    rhs.starts(writer);
    writer.block(format_args!("for (var term = 0u; term < {k}u; term++)"), |writer| {
        lhs.load(writer);
        rhs.load(writer);
        for i in 0..lhs.each {
            for j in 0..rhs.each {
                writer.line(format_args!("sum_{i}_{j} = fma(lhs_{i}, rhs_{j}, sum_{i}_{j});"));
            }
        }
    });
}

/// Writes what happens to the sums.
fn results(writer: &mut Writer, kernel: &DotKernel<'_>, [lhs, rhs]: [&Axis<'_>; 2]) {
    let (rows, columns) = (lhs.each, rhs.each);
    let sums: Vec<String> =
        (0..rows).flat_map(|i| (0..columns).map(move |j| format!("sum_{i}_{j}"))).collect();
    writer.line(format_args!("var sums = array<f32, {}>({});", rows * columns, sums.join(", ")));
    writer.block(format_args!("for (var i = 0u; i < {rows}u; i++)"), |writer| {
        writer.line(format_args!("let row = {};", lhs.position("i")));
        writer.when(lhs.edge().then(|| format!("row < {}u", lhs.side.free)), |writer| {
            writer.block(format_args!("for (var j = 0u; j < {columns}u; j++)"), |writer| {
                writer.line(format_args!("let column = {};", rhs.position("j")));
                writer.when(rhs.edge().then(|| format!("column < {}u", rhs.side.free)), |writer| {
                    writer.line(format_args!("let value = sums[i * {columns}u + j];"));
                    finish(writer, kernel, 1, 1, "value");
                });
            });
        });
    });
}
