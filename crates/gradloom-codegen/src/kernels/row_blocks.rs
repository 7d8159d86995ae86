//! Division of loops with more positions than 32-bit indices count into blocks of rows.

use crate::limits::Limits;
use crate::schedule::precision::Precision;
use crate::schedule::schedule;
use crate::schedule::tuning::Choices;
use gradloom_core::kernel::{Access, Body, Kernel, Launch, Level, NodeKind, Store};

/// Multiple of the number of rows of a block, so that the first element of each block has the alignment of a
/// vector, whatever the length of a row.
const ROWS: usize = 8;

/// Returns launches that each compute a block of the rows of a loop. A block has at most `most` positions,
/// and each of its operands and results spans at most `most` elements from the first to the last. The
/// launches of a group compute its other parts, too. Returns `None` if the launch is within these limits, or
/// if the rows of a loop cannot be computed separately.
///
/// An index that is out of range is reported with its position in the block.
pub(super) fn row_blocks(launch: &Launch, most: usize, limits: &Limits) -> Option<Vec<Launch>> {
    match &launch.kernel {
        Kernel::Loop(body) => of_loop(launch, body, most, limits),
        Kernel::Group(parts) if parts.iter().all(|part| part.workspace.is_empty()) => {
            let apart: Vec<Launch> = parts.iter().map(|part| part.alone(launch)).collect();
            let blocks: Vec<_> = apart.iter().map(|part| row_blocks(part, most, limits)).collect();
            let is_any = blocks.iter().any(Option::is_some);
            let launches = blocks.into_iter().zip(apart).map(|(blocks, part)| blocks.unwrap_or(vec![part]));
            is_any.then(|| launches.flatten().collect())
        }
        _ => None,
    }
}

fn of_loop(launch: &Launch, body: &Body, most: usize, limits: &Limits) -> Option<Vec<Launch>> {
    let span = |access: &Access| access.layout.end().saturating_sub(access.layout.offset);
    let spans = launch.reads.iter().chain(&launch.writes).map(span);
    let extent = spans.fold(body.rows.checked_mul(body.columns)?, usize::max);
    let rows = most.checked_mul(body.rows)? / extent.max(1) / ROWS * ROWS;
    if extent <= most || rows == 0 {
        return None;
    }
    let block = |start: usize| {
        let end = (start + rows).min(body.rows);
        let part = |access: &Access, level: Level| {
            let (extents, from, to) = match level {
                Level::Uniform => return Some(access.clone()),
                Level::Row => (vec![body.rows], vec![start], vec![end]),
                Level::Element => (vec![body.rows, body.columns], vec![start, 0], vec![end, body.columns]),
            };
            let steps = vec![1; extents.len()];
            let layout = access.layout.reshape(&extents.into())?.slice(&from, &to, &steps);
            Some(Access { layout, ..access.clone() })
        };
        let read = |(i, access)| part(access, level_of_read(body, i)?);
        let write = |(i, access)| part(access, level_of_write(body, i)?);
        let reads: Vec<Access> = launch.reads.iter().enumerate().map(read).collect::<Option<_>>()?;
        let writes: Vec<Access> = launch.writes.iter().enumerate().map(write).collect::<Option<_>>()?;
        let kernel = Kernel::Loop(Body { rows: end - start, ..body.clone() });
        // No choices are measured for loops.
        let schedule = schedule(&kernel, &reads, &writes, limits, &Choices::by_rule(Precision::F32));
        (schedule.workspace(&kernel) <= launch.workspace).then(|| Launch {
            kernel,
            reads,
            writes,
            schedule,
            ..launch.clone()
        })
    };
    (0..body.rows).step_by(rows).map(block).collect()
}

/// Returns the level at which a body loads a read; `None` if it does so at several.
fn level_of_read(body: &Body, read: usize) -> Option<Level> {
    let mut levels =
        body.nodes.iter().filter(|node| node.kind == NodeKind::Load(read)).map(|node| node.level);
    let first = levels.next()?;
    levels.all(|level| level == first).then_some(first)
}

/// Returns the level of a result; `None` if each block would write the whole result: a reduction of columns,
/// or a single element.
fn level_of_write(body: &Body, wanted: usize) -> Option<Level> {
    body.stores.iter().find_map(|store| match *store {
        Store::Value { level, write, .. } if write == wanted && level != Level::Uniform => Some(level),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::row_blocks;
    use crate::cuda::{Parameter, units};
    use crate::kernels::{Cuts, MOST_POSITIONS};
    use crate::limits::Limits;
    use crate::pipeline::Target;
    use crate::schedule::precision::Precision;
    use gradloom_core::fuse::fuse;
    use gradloom_core::ir::{Graph, parse};
    use gradloom_core::kernel::{Access, Kernel, Launch};
    use gradloom_core::plan::{Plan, StoreLayout, plan};

    fn planned(lines: &str, precision: Precision) -> (Graph, Plan) {
        let graph = parse(&format!("graph {{\n{lines}\n}}")).unwrap();
        let limits = Limits { library: Some(1 << 24), ..Limits::cuda_of((9, 0)) };
        let target = Target::cuda(limits, precision);
        let lowered = target.lower(&graph, fuse(&graph, target.fusion).unwrap());
        let mut store = StoreLayout::default();
        store.extend(&graph).unwrap();
        let plan = plan(&graph, lowered, &store, None).unwrap();
        (graph, plan)
    }

    /// Returns the softmax of rows with a bias, and the logarithm of each row's sum.
    fn softmax(rows: usize, columns: usize) -> String {
        let all = format!("f32[{rows}, {columns}]");
        format!(
            "%0: {all} = input \"x\"\n%1: f32[1, {columns}] = input \"bias\"\n%2: {all} = broadcast %1\n\
             %3: {all} = add %0, %2\n%4: {all} = exp %3\n%5: f32[{rows}] = sum %4 {{axes=[1]}}\n\
             %6: f32[{rows}] = log %5\noutput \"y\" %6\n%7: f32[{rows}, 1] = reshape %5\n\
             %8: {all} = broadcast %7\n%9: {all} = div %4, %8\noutput \"z\" %9"
        )
    }

    fn row_loop(plan: &Plan) -> &Launch {
        let has_rows = |launch: &&Launch| launch.kernel.body().is_some_and(|body| body.has_row_reductions());
        plan.launches.iter().find(has_rows).expect("the rows are summed")
    }

    fn elements(access: &Access) -> Vec<usize> {
        access.layout.positions().collect()
    }

    #[test]
    fn blocks_have_the_elements_of_the_whole() {
        let (_, plan) = planned(&softmax(37, 130), Precision::F32);
        let whole = row_loop(&plan);
        for (most, count) in [(8 * 130, 5), (17 * 130, 3), (36 * 130, 2)] {
            let blocks = row_blocks(whole, most, &Limits::cuda()).unwrap();
            assert_eq!(blocks.len(), count, "at most {most}");
            for (i, access) in whole.reads.iter().chain(&whole.writes).enumerate() {
                let of_block = |block: &Launch| {
                    elements(block.reads.iter().chain(&block.writes).nth(i).expect("it has as many"))
                };
                let parts: Vec<usize> = blocks.iter().flat_map(of_block).collect();
                assert_eq!(parts, elements(access), "access {i}, at most {most}");
            }
        }
        assert_eq!(row_blocks(whole, 37 * 130, &Limits::cuda()), None, "it fits");
        assert_eq!(row_blocks(whole, 7 * 130, &Limits::cuda()), None, "eight rows do not fit");
    }

    #[test]
    fn sums_of_columns_stay_whole() {
        let (_, plan) = planned(
            "%0: f32[64, 64] = input \"x\"\n%1: f32[64, 64] = exp %0\n%2: f32[64] = sum %1 {axes=[0]}\n\
             output \"y\" %2",
            Precision::F32,
        );
        let launch = plan.launches.iter().find(|launch| launch.kernel.body().is_some()).unwrap();
        assert_eq!(row_blocks(launch, 1024, &Limits::cuda()), None);
    }

    /// The logits of GPT-2 at batch 128 and 1024 tokens.
    #[test]
    fn cuda_reaches_more_elements_than_indices_count() {
        let (rows, columns) = (1 << 17, 50257);
        let (graph, plan) = planned(&softmax(rows, columns), Precision::F32);
        let units = units(&plan, &graph, &Cuts::default()).unwrap();
        let addresses: Vec<Vec<u64>> = units
            .iter()
            .map(|unit| {
                let offset = |parameter: &Parameter| match parameter {
                    Parameter::Memory(_, offset) => Some(*offset),
                    _ => None,
                };
                unit.parameters.iter().filter_map(offset).collect()
            })
            .collect();
        let block = MOST_POSITIONS / columns / 8 * 8;
        let [first, second] = &addresses[..] else { panic!("{} kernels", addresses.len()) };
        let steps: Vec<u64> = first.iter().zip(second).map(|(a, b)| b - a).collect();
        let (whole, row) = (4 * (block * columns) as u64, 4 * block as u64);
        assert!(
            steps.contains(&whole) && steps.iter().all(|step| [0, row, whole].contains(step)),
            "{steps:?}"
        );
    }

    /// Products of the library have rows with padding, which a part of the loop's group fills.
    #[test]
    fn groups_are_divided_too() {
        let [x, w, y] = ["f32[131072, 768]", "f32[768, 50257]", "f32[131072, 50257]"];
        let (graph, plan) = planned(
            &format!(
                "%0: {x} = input \"x\"\n%1: {w} = input \"w\"\n\
                 %2: {y} = dot %0, %1 {{lhs_contract=[1], rhs_contract=[0]}}\n%3: {y} = exp %2\n\
                 %4: f32[131072] = sum %3 {{axes=[1]}}\n%5: f32[131072, 1] = reshape %4\n\
                 %6: {y} = broadcast %5\n%7: {y} = div %3, %6\n\
                 %8: {x} = dot %7, %1 {{lhs_contract=[1], rhs_contract=[1]}}\noutput \"z\" %8"
            ),
            Precision::Bf16,
        );
        let is_divided = |launch: &&Launch| row_blocks(launch, MOST_POSITIONS, &Limits::cuda()).is_some();
        let divided = plan.launches.iter().find(is_divided).expect("the rows are too many");
        assert!(matches!(divided.kernel, Kernel::Group(_)), "{}", plan.report(&graph));
        let blocks = row_blocks(divided, MOST_POSITIONS, &Limits::cuda()).unwrap();
        let reach = |access: &Access| access.layout.end() - access.layout.offset;
        let accesses = || blocks.iter().flat_map(|block| block.reads.iter().chain(&block.writes));
        assert!(accesses().all(|access| reach(access) <= MOST_POSITIONS), "{blocks:?}");
        assert_eq!(blocks.len(), 4, "two of the rows, two of their padding: {blocks:?}");
    }
}
