//! The product of cooperative matrices: `f16` operands, sums in `f32`.
//!
//! Tiles go through workgroup memory as vectors of four `f16` (of integers NVIDIA's compiler loads no
//! matrix). A cooperative load takes rows of such vectors, by rows or by columns, so all layouts of the
//! operands are read as they are. Results leave through workgroup memory too, 16 x 16 at a time, because
//! which invocation holds which element of a cooperative matrix is not known.

use super::grid::Grid;
use super::portable::{finish, header, result_lanes, terms};
use super::problem::{Along, DotKernel, Side};
use super::staged::{Staged, pipeline};
use super::tile::{Choice, CooperativeTile};
use crate::wgsl::{Limits, Shader, Writer};

/// Whether there are adapters with such matrices: the extension is wgpu's own, no browser has it. A page's
/// module has no code for them.
pub(super) const IS_POSSIBLE: bool = cfg!(not(target_family = "wasm"));

/// The shader for the product, or for its parts.
pub(super) fn product(
    kernel: &DotKernel<'_>,
    tile: &CooperativeTile,
    choice: &Choice,
    limits: &Limits,
) -> Shader {
    let problem = kernel.problem;
    let grid = Grid::new(problem, (tile.m, tile.n), choice.parts);
    let subgroup = limits.subgroup.expect("a tile that fits is for one size of subgroups");
    let threads = tile.subgroups() * subgroup;
    let stage = |side, extent, strip| Staged {
        side,
        extent,
        depth: tile.k,
        half: true,
        strip,
        threads,
        buffers: tile.buffers,
    };
    let lhs = stage(Side::lhs(kernel), tile.m, 1);
    let rhs = stage(Side::rhs(kernel), tile.n, 1);
    let mut writer = Writer::new();
    writer.line("enable wgpu_cooperative_matrix;");
    writer.line("enable f16;");
    header(&mut writer, kernel, choice.parts);
    writer.line(format_args!(
        "// Tiles of {} x {}, {} x {} a subgroup, in cooperative matrices.",
        tile.m, tile.n, tile.subgroup_m, tile.subgroup_n
    ));
    lhs.declare(&mut writer);
    rhs.declare(&mut writer);
    writer.line(format_args!("var<workgroup> result_tile: array<f32, {}>;", tile.subgroups() * 256));
    writer.line("");
    writer.line(format_args!("@compute @workgroup_size({threads})"));
    writer.line("fn main(");
    writer.line("    @builtin(workgroup_id) workgroup: vec3<u32>,");
    writer.line("    @builtin(local_invocation_index) thread: u32,");
    writer.line("    @builtin(subgroup_id) subgroup: u32,");
    writer.line("    @builtin(subgroup_invocation_id) lane: u32,");
    writer.open(")");
    grid.write(&mut writer, problem, (tile.m, tile.n), limits);
    let body = Body { kernel, tile, choice, lhs: &lhs, rhs: &rhs, subgroup };
    body.write(&mut writer);
    writer.close();
    Shader { source: writer.finish(), workgroups: grid.workgroups(limits) }
}

struct Body<'a, 'b> {
    kernel: &'b DotKernel<'a>,
    tile: &'b CooperativeTile,
    choice: &'b Choice,
    lhs: &'b Staged<'a>,
    rhs: &'b Staged<'a>,
    subgroup: u32,
}

impl Body<'_, '_> {
    fn rows(&self) -> u32 {
        self.tile.subgroup_m / 16
    }

    fn columns(&self) -> u32 {
        self.tile.subgroup_n / 16
    }

    fn write(&self, writer: &mut Writer) {
        let across = self.tile.n / self.tile.subgroup_n;
        writer.line(format_args!("let subgroup_row = (subgroup / {across}u) * {}u;", self.tile.subgroup_m));
        writer
            .line(format_args!("let subgroup_column = (subgroup % {across}u) * {}u;", self.tile.subgroup_n));
        for i in 0..self.rows() {
            for j in 0..self.columns() {
                writer.line(format_args!("var sum_{i}_{j} = coop_mat16x16<f32, C>();"));
            }
        }
        if self.kernel.problem.k > 0 {
            self.terms(writer);
        }
        for i in 0..self.rows() {
            for j in 0..self.columns() {
                self.results(writer, i, j);
            }
        }
    }

    fn terms(&self, writer: &mut Writer) {
        let (k, depth) = (self.kernel.problem.k, self.tile.k);
        terms(writer, self.choice, k);
        pipeline(writer, [self.lhs, self.rhs], depth, |writer| {
            for step in 0..depth / 16 {
                self.multiply(writer, step);
            }
        });
    }

    /// Writes the products of 16 terms.
    fn multiply(&self, writer: &mut Writer, step: u32) {
        writer.open("");
        for i in 0..self.rows() {
            let load = load(self.lhs, "A", "subgroup_row", i, step);
            writer.line(format_args!("let lhs_{i} = {load};"));
        }
        for j in 0..self.columns() {
            let load = load(self.rhs, "B", "subgroup_column", j, step);
            writer.line(format_args!("let rhs_{j} = {load};"));
            for i in 0..self.rows() {
                writer.line(format_args!("sum_{i}_{j} = coopMultiplyAdd(lhs_{i}, rhs_{j}, sum_{i}_{j});"));
            }
        }
        writer.close();
    }

    /// Writes how 16 x 16 results reach the epilogue.
    fn results(&self, writer: &mut Writer, i: u32, j: u32) {
        let problem = self.kernel.problem;
        let lanes = result_lanes(self.kernel, self.choice.parts);
        let row_edge = !problem.m.is_multiple_of(self.tile.m as usize);
        let column_edge = !problem.n.is_multiple_of(self.tile.n as usize);
        writer.line(format_args!("coopStoreT(sum_{i}_{j}, &result_tile[subgroup * 256u], 16u);"));
        writer.line("workgroupBarrier();");
        let step = self.subgroup * lanes;
        writer.block(
            format_args!("for (var place = lane * {lanes}u; place < 256u; place += {step}u)"),
            |writer| {
                writer.line(format_args!("let row = first_row + subgroup_row + {}u + place / 16u;", 16 * i));
                writer.line(format_args!(
                    "let column = first_column + subgroup_column + {}u + place % 16u;",
                    16 * j
                ));
                let inside = [
                    row_edge.then(|| format!("row < {}u", problem.m)),
                    column_edge.then(|| format!("column < {}u", problem.n)),
                ];
                let inside: Vec<String> = inside.into_iter().flatten().collect();
                writer.when((!inside.is_empty()).then(|| inside.join(" && ")), |writer| {
                    let at = |lane: u32| format!("result_tile[subgroup * 256u + place + {lane}u]");
                    let value = match lanes {
                        4 => format!("vec4<f32>({}, {}, {}, {})", at(0), at(1), at(2), at(3)),
                        _ => at(0),
                    };
                    writer.line(format_args!("let value = {value};"));
                    finish(writer, self.kernel, self.choice.parts, lanes, "value");
                });
            },
        );
        writer.line("workgroupBarrier();");
    }
}

/// The load of a 16 x 16 matrix of the tile.
fn load(staged: &Staged<'_>, role: &str, subgroup: &str, i: u32, step: u32) -> String {
    let (name, pitch) = (staged.side.name, staged.pitch());
    let free = format!("({subgroup} + {}u)", 16 * i);
    let at = match staged.side.along {
        Along::Contract => format!("{free} * {pitch}u + {}u", 4 * step),
        Along::Free => format!("{}u + {free} / 4u", 16 * step * pitch),
    };
    // The left matrix has its terms along its rows, the right one along its columns; `coopLoadT` reads by
    // rows.
    let by_rows = (staged.side.along == Along::Contract) == (role == "A");
    let function = if by_rows { "coopLoadT" } else { "coopLoad" };
    format!("{function}<coop_mat16x16<f16, {role}>>(&{name}_tile[{name}_buffer + {at}], {pitch}u)")
}
