//! What decides on the device whether a step may commit, as CUDA C.
//!
//! In: the plan's guards, and the windows that its commit replaces. Out: a kernel of one block that runs
//! between the two phases, and leaves a [`Verdict`](crate::step::Verdict) in the step's status, with a record
//! of the step if it failed.

use super::functions::{Function, Functions};
use super::launch::{CudaKernel, Span, Spans, Work, address};
use super::print::stored_name;
use crate::narrow::narrow;
use crate::step::status::{
    ACKNOWLEDGED, FAILURES, FIRST_GUARD, FIRST_RECORDS, RECORD_WORDS, RECORDS, STEPS, TRAPPED,
};
use crate::step::{Window, windows};
use crate::wgsl::index_at;
use gradloom_core::ir::DType;
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;
use std::fmt::Write;

const THREADS: u32 = 256;

/// The kernel that looks at a plan's guards and windows, and at what trapped before.
pub(super) fn guards(plan: &Plan) -> CudaKernel {
    let guards: Vec<&Access> = plan.guards.iter().map(|(_, access)| access).collect();
    let windows: Vec<Window<'_>> = windows(plan).collect();
    let reads: Vec<&Access> = guards.iter().copied().chain(windows.iter().map(|w| w.start)).collect();
    let mut functions = Functions::new();
    functions.insert(Function::Report);
    let mut body = String::new();
    for (guard, access) in guards.iter().enumerate() {
        let (elements, index) = (access.layout.shape.elements(), index_at(&access.layout, "i"));
        let value = match access.dtype {
            DType::F16 => format!("{}(b{guard}[{index}])", function(&mut functions, Function::F16)),
            DType::BF16 => format!("{}(b{guard}[{index}])", function(&mut functions, Function::Bf16)),
            _ => format!("b{guard}[{index}]"),
        };
        let verdict = FIRST_GUARD + narrow(guard);
        let line = format!(
            "    for (unsigned i = threadIdx.x; i < {elements}u; i += {THREADS}u) {{
        if ((__float_as_uint({value}) & 0x7f800000u) == 0x7f800000u) atomicMin(&verdict, {verdict}u);
    }}\n"
        );
        body.push_str(&line);
    }
    body.push_str("    __syncthreads();\n    if (threadIdx.x != 0) return;\n");
    for (window, read) in windows.iter().zip(guards.len()..) {
        let Window { launch, axis, room, start } = window;
        let (index, launch) = (index_at(&start.layout, "0u"), launch + 1);
        let line = format!(
            "    {{
        int start = b{read}[{index}];
        if (start < 0 || start > {room}) report(status, {launch}u, {axis}u, start, {}u);
    }}\n",
            room + 1
        );
        body.push_str(&line);
    }
    let (last, bytes) = (RECORDS + FIRST_RECORDS * RECORD_WORDS, 5);
    let record = format!(
        "    if (status[1] != 0) status[0] = {TRAPPED}u;
    else if (verdict != 0xffffffffu) status[0] = verdict;
    unsigned run = status[{STEPS}]++;
    if (status[0] == 0) return;
    unsigned failure = status[{FAILURES}]++;
    bool among_first = failure - *(volatile unsigned*)&status[{ACKNOWLEDGED}] < {FIRST_RECORDS}u;
    for (int copy = among_first ? 0 : 1; copy < 2; copy++) {{
        unsigned* record = status + (copy == 1 ? {last}u : {RECORDS}u + {RECORD_WORDS}u * (failure % {FIRST_RECORDS}u));
        record[0] = failure + 1;
        record[1] = run;
        for (int i = 0; i < {bytes}; i++) record[2 + i] = status[i];
    }}\n"
    );
    let mut source = String::from("// guards\n");
    functions.iter().for_each(|function| source.push_str(function.text()));
    source.push_str("extern \"C\" __global__ void __launch_bounds__(256) guards(");
    for (i, access) in reads.iter().enumerate() {
        write!(source, "const {}* b{i}, ", stored_name(access.dtype.into()))
            .expect("a string takes all text");
    }
    source.push_str("unsigned* status) {\n    __shared__ unsigned verdict;\n");
    source.push_str("    if (threadIdx.x == 0) verdict = 0xffffffffu;\n    __syncthreads();\n");
    source.push_str(&body);
    source.push_str(&record);
    source.push_str("}\n");
    CudaKernel {
        label: "guards".to_string(),
        work: Work::Function {
            name: "guards".to_string(),
            source,
            groups: 1,
            threads: THREADS,
            loads_early: false,
        },
        parameters: reads.iter().map(|access| address(plan, access)).collect(),
        spans: Spans {
            reads: reads.iter().filter_map(|access| Span::of(plan, access)).collect(),
            writes: Vec::new(),
            decides: true,
            ..Spans::default()
        },
    }
}

fn function(functions: &mut Functions, function: Function) -> &'static str {
    functions.insert(function);
    function.name()
}
