//! Means: the dot products of the queries' outputs and their cotangents, which the gradient subtracts from
//! the gradients of weights. They are called D in Dao, FlashAttention-2 (2023), section 3.1.2.

use super::super::super::ir::Kernel;
use super::super::{Builder, Value, Views, WORKGROUP};
use super::{Attention, Head};
use crate::narrow::narrow;
use gradloom_core::ir::ReduceOp;
use gradloom_core::kernel::AttentionSchedule;

/// Number of invocations per query, which load four elements at a time.
const LANES: u32 = 16;

/// Returns the kernel that stores the means in the scratch memory; `None` if the schedule has no separate
/// kernel for them, or there are no queries.
pub(super) fn means(views: &Views<'_>, schedule: &AttentionSchedule) -> Option<Kernel> {
    let problem = &schedule.problem;
    let queries = problem.pairs() * problem.queries;
    let subgroup = schedule.means_apart.filter(|_| queries > 0)?;
    let groups = queries.div_ceil((WORKGROUP / LANES) as usize);
    let k = Builder::new("attention_grad: means", WORKGROUP, groups);
    k.uses_subgroups(subgroup);
    let attention = Attention { k: &k, views, schedule, problem, half: schedule.half };
    let (lane, raw) = (k.local() % LANES, k.group() * (WORKGROUP / LANES) + k.local() / LANES);
    let number = raw.min(k.u32(narrow(queries) - 1));
    let (query, pair) = (number % narrow(problem.queries), number / narrow(problem.queries));
    let of = [pair / narrow(problem.heads), pair % narrow(problem.heads)];
    let [output, _, cotangent] = attention.output_and_cotangent();
    let starts = [output.start(of, query), cotangent.start(of, query)];
    let share = k.var(k.f32(0.0));
    if output.width() > 0 {
        k.count(lane * 4, k.u32(narrow(output.width())), k.u32(LANES * 4), |column| {
            let [output, cotangent] = [output.four(starts[0], column), cotangent.four(starts[1], column)];
            let sum =
                (0..4).fold(share.get(), |sum, i| output.component(i).mul_add(cotangent.component(i), sum));
            share.set(sum);
        });
    }
    let mean = share.get().across_subgroup(ReduceOp::Sum, LANES as usize, subgroup);
    k.when(lane.equals(k.u32(0)) & raw.below(narrow(queries)), || {
        k.store(attention.means(), number, mean);
    });
    Some(k.finish())
}

impl<'k> Attention<'k, '_> {
    /// Loads the means of some queries; returns `None` if no separate kernel has computed them.
    pub(super) fn known_means(&self, of: Head<'k>, queries: &[Value<'k>]) -> Option<Vec<Value<'k>>> {
        self.schedule.means_apart?;
        let load = |&query: &Value<'k>| self.k.load(self.means(), self.query_number(of, query));
        Some(queries.iter().map(load).collect())
    }
}
