//! Programs that move and convert u8 and i64 with extreme values, for tests of every device.

use crate::values;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Graph, OpKind, parse};
use gradloom_core::passes;
use gradloom_core::reference::{Evaluation, HostData, HostTensor, evaluate};

/// Program in text form, and the elements of its leaves, which are all integers.
pub struct Data {
    /// Graph in text form, without the enclosing braces.
    pub lines: String,
    /// Elements of each leaf, by name.
    pub leaves: Vec<(&'static str, Vec<i64>)>,
}

impl Data {
    fn graph(&self) -> Graph {
        let lines = &self.lines;
        parse(&format!("graph {{\n{lines}\n}}")).unwrap_or_else(|error| panic!("{error:?}\n{lines}"))
    }

    /// Returns the value of a leaf; `None` for a state, which starts with its `init`.
    pub fn value(&self, kind: &OpKind) -> Option<HostTensor> {
        let (OpKind::Input { ty, .. } | OpKind::Param { ty, .. }) = kind else { return None };
        let name = Graph::leaf_name(kind)?;
        let (_, elements) = self.leaves.iter().find(|(known, _)| *known == name)?;
        let all = elements.iter().copied().cycle().take(ty.elements());
        Some(match ty.dtype {
            DType::Bool => HostTensor { ty: ty.clone(), data: HostData::Bool(all.map(|x| x != 0).collect()) },
            DType::F32 => HostTensor::from_f64(ty.clone(), all.map(|x| x as f64)),
            _ => HostTensor { ty: ty.clone(), data: HostData::Int(all.collect()) },
        })
    }
}

/// Returns numbers at the limits of a dtype's range and of other dtypes' ranges, all of which moves preserve.
fn extremes(dtype: DType) -> Vec<i64> {
    match dtype {
        DType::U8 => vec![0, 255, 1, 128, 127, 254, 7],
        _ => {
            let near = [1 << 31, -(1 << 31) - 1, (1 << 32) - 1, 1 << 32, 0x0123_4567_89ab_cdef];
            [&[i64::MIN, i64::MAX, -1, 0], &near[..]].concat()
        }
    }
}

/// Returns graphs with every op that moves elements of u8 and i64: with rows that do not fill whole words, at
/// odd offsets, in states, and with no elements.
pub fn moves() -> Vec<Data> {
    let mut all = Vec::new();
    for dtype in [DType::U8, DType::I64] {
        for n in [7, 4, 1, 0] {
            let t = dtype.name();
            let (around, whole) = match dtype {
                DType::U8 => ("255", "7"),
                _ => ("-9223372036854775807", "4294967296"),
            };
            // Operands have at least one more column than the windows, so that windows start at odd offsets.
            let (m, k) = (n + 1, n + 3);
            let lines = format!(
                "%0: {t}[3, {m}] = input \"x\"
                 %1: {t}[3, {m}] = input \"y\"
                 %2: i32[2] = input \"rows\"
                 %3: i32[] = constant 1
                 %4: f32[3, 1] = input \"chooses\"
                 %5: f32[3, 1] = constant 0.0
                 %6: bool[3, 1] = ne %4, %5
                 %7: bool[3, {m}] = broadcast %6
                 %8: {t}[3, {n}] = slice %0 {{start=[0, 1], limit=[3, {m}], step=[1, 1]}}
                 %9: {t}[{n}, 3] = permute %8 {{perm=[1, 0]}}
                 %10: {t}[{elements}] = reshape %9
                 %11: {t}[3, {m}] = select %7, %0, %1
                 %12: {t}[3, {k}] = pad %8 {{low=[0, 1], high=[0, 2], interior=[0, 0], value={around}}}
                 %13: {t}[3, {joined}] = concat %0, %8 {{axis=1}}
                 %14: {t}[2, {m}] = gather %0, %2 {{batch=0}}
                 %15: {t}[3, {m}] = scatter %0, %2, %14 {{batch=0}}
                 %16: i32[] = constant 0
                 %17: {t}[1, {m}] = dynamic_slice %0, %3, %16
                 %18: {t}[3, {m}] = dynamic_update_slice %1, %17, %3, %16
                 %19: {t}[3, 1, {m}] = windows %0 {{size=[{m}], step=[1], dilation=[1]}}
                 %20: {t}[1, {m}] = slice %1 {{start=[2, 0], limit=[3, {m}], step=[1, 1]}}
                 %21: {t}[3, {m}] = broadcast %20
                 %22: {t}[3, {m}] = constant {whole}
                 %23: {t}[3] = constant [1, 2, 3]
                 %24: {t}[3, {m}] = state \"kept\" {{init=9}}
                 %25: {t}[3, {m}] = state \"windowed\" {{init=3}}
                 %26: {t}[3, {m}] = select %7, %24, %22
                 output \"sliced\" %8
                 output \"flat\" %10
                 output \"chosen\" %11
                 output \"padded\" %12
                 output \"joined\" %13
                 output \"rows\" %14
                 output \"put\" %15
                 output \"window\" %17
                 output \"replaced\" %18
                 output \"windows\" %19
                 output \"repeated\" %21
                 output \"same\" %22
                 output \"listed\" %23
                 output \"before\" %26
                 update %24 <- %11
                 update %25[%3, %16] <- %17
                 update %25[%16, %16] <- %20",
                elements = 3 * n,
                joined = m + n,
            );
            let leaves = vec![
                ("x", extremes(dtype)),
                ("y", extremes(dtype).into_iter().rev().collect()),
                ("rows", vec![2, 0]),
                ("chooses", vec![1, 0, 1]),
            ];
            all.push(Data { lines, leaves });
        }
    }
    all
}

/// Returns conversions of every number that both dtypes represent, and of integers that wrap.
pub fn casts() -> Vec<Data> {
    let ends = vec![i64::from(i32::MIN), -1, 0, 1, 255, 256, 257, 65_535, -256, i64::from(i32::MAX)];
    let lines = "%0: i64[5, 2] = input \"wide\"
                 %1: i32[5, 2] = input \"x\"
                 %2: u32[5, 2] = input \"unsigned\"
                 %3: u8[5, 2] = input \"bytes\"
                 %4: i32[5, 2] = cast %0
                 %5: i64[5, 2] = cast %1
                 %6: i64[5, 2] = cast %2
                 %7: u8[5, 2] = cast %1
                 %8: i32[5, 2] = cast %3
                 %9: f32[5, 2] = cast %8
                 %10: i32[5, 2] = add %4, %8
                 %11: i64[5, 2] = cast %10
                 %12: i32[5, 2] = cast %11
                 output \"narrowed\" %4
                 output \"extended\" %5
                 output \"unsigned\" %6
                 output \"wrapped\" %7
                 output \"counted\" %8
                 output \"floats\" %9
                 output \"there\" %11
                 output \"back\" %12";
    let unsigned = vec![0, 1, 1 << 31, (1 << 32) - 1, (1 << 31) - 1];
    let leaves = |bytes: i64| {
        let bytes = vec![0, 255 - bytes, bytes, 128, 127];
        vec![("wide", ends.clone()), ("x", ends.clone()), ("unsigned", unsigned.clone()), ("bytes", bytes)]
    };
    let none = lines.replace("[5, 2]", "[0, 2]");
    let one = lines.replace("[5, 2]", "[]");
    [lines.to_string(), none, one].map(|lines| Data { lines, leaves: leaves(3) }).into()
}

/// Returns programs that trap, because an i64 at position `[1, 2]` is out of the range of i32.
pub fn traps() -> Vec<Data> {
    let lines = "%0: i64[2, 3] = input \"x\"\n%1: i32[2, 3] = cast %0\noutput \"y\" %1";
    let outside = [1 << 31, -(1 << 31) - 1, 1 << 32, (1 << 32) - 1, i64::MIN, i64::MAX];
    let case = |x: i64| Data { lines: lines.to_string(), leaves: vec![("x", vec![0, -1, 1, 2, 3, x])] };
    outside.map(case).into()
}

/// Runs all programs of [`moves`] and [`casts`] after the passes, and compares them with the reference.
///
/// # Panics
/// Panics if a program fails, or if its results differ from the reference.
pub fn check_values(run: &mut dyn FnMut(Graph, &Data) -> Result<Evaluation>) {
    for data in moves().into_iter().chain(casts()) {
        let want = evaluate(&data.graph(), &|kind| data.value(kind)).unwrap();
        let got = run(passes::run(data.graph()).0, &data).unwrap();
        assert!(values(&got).eq(values(&want)), "{got:?}\ninstead of\n{want:?}\n{}", data.lines);
    }
}

/// Runs all programs of [`traps`] after the passes, and checks that they and the reference trap.
///
/// # Panics
/// Panics if a program does not trap.
pub fn check_traps(run: &mut dyn FnMut(Graph, &Data) -> Result<Evaluation>) {
    for data in traps() {
        let want = evaluate(&data.graph(), &|kind| data.value(kind)).unwrap_err();
        assert!(want.message().ends_with("at element 5 is not in i32's range"), "{want}");
        let error: Error = run(passes::run(data.graph()).0, &data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Trap);
        assert_eq!(error.message(), "the i64 at position [1, 2] is not in i32's range");
    }
}
