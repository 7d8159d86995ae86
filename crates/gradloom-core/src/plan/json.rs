//! JSON form of the plan for tools. [`Plan::to_json`] documents the keys.

use super::{Buffer, LaunchView, Plan, PlanView, Role};
use crate::ir::Graph;
use crate::json::{Json, count, numbers, object, text};
use crate::kernel::{Access, Launch, Phase};

/// Version of the format. It changes when a key is renamed or removed or its meaning changes, but not when
/// keys are added.
const VERSION: u64 = 1;

impl Plan {
    /// Returns the plan as a JSON object without white space. `graph` is the graph that was planned.
    ///
    /// - `version`: 1; changes when keys are renamed or removed or change their meaning
    /// - `totals`: bytes of `store`, `constants`, `step`, `workspace`, and `peak`, their sum; `flops`,
    ///   `bytes_read`, `bytes_written` of all launches
    /// - `first_commit`: the first launch that runs after the guards have passed, or the number of launches
    ///   if there is none
    /// - `peak_moment`: the first moment at which the use of the step arena is highest
    /// - `launches`: the launches in order, with the keys below
    /// - `hoisted`: launches that run once, when the program is loaded: `kernel`, `op`, `reads`, `writes`
    /// - `buffers`: `value`, the number in the graph's text (`%3`) or `copy 0`; `name`, a leaf's name or the
    ///   op with its location; `role` and `region`, as in [`Role::name`] and
    ///   [`Region::name`](super::Region::name); `dtype`, `shape`, `bytes`; `offset` in the region, in bytes;
    ///   `first` and `last`, the first and last launch of its lifetime
    /// - `outputs`, `guards`: `name` and `access`
    /// - `memory`: `live`, the number of bytes of the step arena in use at each moment; `roles`, the same by
    ///   role, for roles that use any bytes; `stays`, as `[buffer, first moment, end]` (see
    ///   [`Stay`](super::Stay))
    ///
    /// A launch has `name`, `kernel`, `phase` (`compute` or `commit`), `op`, `origin` (`file:line:column` or
    /// null), `reads` and `writes` (lists of accesses), `producers` (launches that wrote its operands),
    /// `workspace`, `flops`, `bytes_read`, `bytes_written`, and `listing`, the expression of a fused kernel
    /// or null.
    ///
    /// An access has `buffer`, an index into `buffers`, `shape`, and, unless the elements are contiguous from
    /// the start of the buffer, `start` and `strides` in elements.
    ///
    /// Numbers are integers. Those above 2^53 lose precision in readers that use float64 for all numbers.
    pub fn to_json(&self, graph: &Graph) -> String {
        let view = self.view(graph);
        let timeline = self.timeline();
        let cost = view.launches().fold(super::Cost::default(), |sum, launch| sum + launch.cost());
        let totals = &self.totals;
        let moments = 0..timeline.moments();
        let roles = Role::ALL.into_iter().filter_map(|role| {
            let bytes = moments.clone().map(|moment| timeline.bytes_of(role, moment));
            let is_used = bytes.clone().any(|n| n > 0);
            is_used.then(|| (role.name(), Json::List(bytes.map(Json::Number).collect())))
        });
        let named = |list: &[(String, Access)]| {
            let entry =
                |(name, a): &(String, Access)| object([("name", text(name)), ("access", access(self, a))]);
            Json::List(list.iter().map(entry).collect())
        };
        object([
            ("version", Json::Number(VERSION)),
            (
                "totals",
                object([
                    ("store", Json::Number(totals.store)),
                    ("constants", Json::Number(totals.constants)),
                    ("step", Json::Number(totals.step)),
                    ("workspace", Json::Number(totals.workspace)),
                    ("peak", Json::Number(totals.peak())),
                    ("flops", Json::Number(cost.flops)),
                    ("bytes_read", Json::Number(cost.bytes_read)),
                    ("bytes_written", Json::Number(cost.bytes_written)),
                ]),
            ),
            ("first_commit", count(self.first_commit())),
            ("peak_moment", count(timeline.peak())),
            ("launches", Json::List(view.launches().map(|l| launch(&view, &l)).collect())),
            ("hoisted", Json::List(self.hoisted.iter().map(|l| hoisted(&view, graph, l)).collect())),
            ("buffers", Json::List(self.buffers.iter().map(|b| buffer(&view, b)).collect())),
            ("outputs", named(&self.outputs)),
            ("guards", named(&self.guards)),
            (
                "memory",
                object([
                    ("live", Json::List(moments.clone().map(|m| Json::Number(timeline.bytes(m))).collect())),
                    ("roles", Json::Object(roles.collect())),
                    (
                        "stays",
                        Json::List(
                            (timeline.stays.iter())
                                .map(|stay| numbers(&[stay.buffer, stay.moments.start, stay.moments.end]))
                                .collect(),
                        ),
                    ),
                ]),
            ),
        ])
        .to_string()
    }
}

/// Returns the JSON form of a hoisted launch, which runs when the program is loaded.
fn hoisted(view: &PlanView<'_>, graph: &Graph, launch: &Launch) -> Json {
    let accesses = |list: &[Access]| Json::List(list.iter().map(|a| access(view.plan(), a)).collect());
    object([
        ("kernel", text(launch.kernel.name())),
        ("op", text(graph.ops[launch.op].kind.name())),
        ("reads", accesses(&launch.reads)),
        ("writes", accesses(&launch.writes)),
    ])
}

fn launch(view: &PlanView<'_>, launch: &LaunchView<'_>) -> Json {
    let cost = launch.cost();
    let accesses = |list: &[Access]| Json::List(list.iter().map(|a| access(view.plan(), a)).collect());
    let optional = |line: String| if line.is_empty() { Json::Null } else { Json::Text(line) };
    object([
        ("name", Json::Text(launch.name())),
        ("kernel", text(launch.launch().kernel.name())),
        (
            "phase",
            text(match launch.phase() {
                Phase::Compute => "compute",
                Phase::Commit => "commit",
            }),
        ),
        ("op", text(launch.op().kind.name())),
        ("origin", optional(launch.origin().map(ToString::to_string).unwrap_or_default())),
        ("reads", accesses(&launch.launch().reads)),
        ("writes", accesses(&launch.launch().writes)),
        ("producers", numbers(launch.producers())),
        ("workspace", Json::Number(launch.launch().workspace)),
        ("flops", Json::Number(cost.flops)),
        ("bytes_read", Json::Number(cost.bytes_read)),
        ("bytes_written", Json::Number(cost.bytes_written)),
        ("listing", optional(launch.listing())),
    ])
}

fn buffer(view: &PlanView<'_>, buffer: &Buffer) -> Json {
    object([
        ("value", Json::Text(view.value_name(buffer.value))),
        ("name", Json::Text(view.label(buffer))),
        ("role", text(buffer.role.name())),
        ("region", text(buffer.region.name())),
        ("dtype", text(buffer.ty.dtype.name())),
        ("shape", numbers(&buffer.ty.shape)),
        ("bytes", Json::Number(buffer.bytes)),
        ("offset", Json::Number(buffer.offset)),
        ("first", count(buffer.first)),
        ("last", count(buffer.last)),
    ])
}

fn access(plan: &Plan, access: &Access) -> Json {
    let mut fields = vec![
        ("buffer", plan.buffer_of.get(&access.buffer).map_or(Json::Null, |&i| count(i))),
        ("shape", numbers(&access.layout.shape)),
    ];
    if access.layout.offset != 0 || !access.layout.is_contiguous() {
        fields.push(("start", count(access.layout.offset)));
        fields.push(("strides", numbers(&access.layout.strides)));
    }
    Json::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let value = object([
            ("a", text("\"\\\n\u{1}</script>ä")),
            ("b", numbers(&[0, usize::MAX])),
            ("c", Json::Null),
        ]);
        let expected = r#"{"a":"\"\\\n\u0001\u003c/script>ä","b":[0,18446744073709551615],"c":null}"#;
        assert_eq!(value.to_string(), expected);
    }
}
