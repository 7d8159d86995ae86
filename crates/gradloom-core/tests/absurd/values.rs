//! Absurd values for each type of argument, and loops over all their combinations.

use gradloom_core::ir::DType;

pub(crate) trait Absurd: Sized {
    fn values() -> Vec<Self>;
}

pub(crate) const HUGE: usize = 1 << 31;

impl Absurd for usize {
    fn values() -> Vec<Self> {
        vec![0, 1, 2, 3, HUGE, usize::MAX / 2, usize::MAX]
    }
}

impl Absurd for u64 {
    fn values() -> Vec<Self> {
        vec![0, 1, 2, 1 << 31, u64::MAX / 2, u64::MAX]
    }
}

impl Absurd for i32 {
    fn values() -> Vec<Self> {
        vec![0, 1, -1, i32::MIN, i32::MAX]
    }
}

impl Absurd for isize {
    fn values() -> Vec<Self> {
        vec![0, 1, -1, 2, -2, 4, isize::MIN, isize::MAX, HUGE as isize]
    }
}

impl Absurd for f64 {
    fn values() -> Vec<Self> {
        vec![0.0, 1.0, -1.0, 0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324]
    }
}

impl Absurd for bool {
    fn values() -> Vec<Self> {
        vec![false, true]
    }
}

impl Absurd for DType {
    fn values() -> Vec<Self> {
        DType::ALL.to_vec()
    }
}

/// A list of axes.
#[derive(Debug)]
pub(crate) struct List(pub(crate) Vec<isize>);

impl Absurd for List {
    fn values() -> Vec<Self> {
        let lists = [
            vec![],
            vec![0],
            vec![-1],
            vec![0, 1],
            vec![1, 0],
            vec![0, 0],
            vec![0, -1],
            vec![2, 1, 0],
            vec![isize::MIN],
            vec![0, isize::MAX],
            vec![0; 70],
        ];
        lists.map(List).into()
    }
}

/// A list of extents or sizes.
#[derive(Debug)]
pub(crate) struct Extents(pub(crate) Vec<usize>);

impl Absurd for Extents {
    fn values() -> Vec<Self> {
        let lists = [
            vec![],
            vec![0],
            vec![1],
            vec![3],
            vec![2, 3],
            vec![1, 2],
            vec![2, 1, 1],
            vec![HUGE],
            vec![usize::MAX],
            vec![usize::MAX, usize::MAX],
            vec![0, usize::MAX],
            vec![1 << 24, 1 << 24],
            vec![1; 65],
        ];
        lists.map(Extents).into()
    }
}

/// Sizes of windows, strides or paddings: a number for each of two axes, or one number for both.
#[derive(Debug)]
pub(crate) struct PerAxis(pub(crate) Vec<usize>);

impl Absurd for PerAxis {
    fn values() -> Vec<Self> {
        let lists = [
            vec![],
            vec![0],
            vec![1],
            vec![2],
            vec![2, 1],
            vec![1, HUGE],
            vec![usize::MAX],
            vec![usize::MAX, 1],
            vec![1, 1, 1],
        ];
        lists.map(PerAxis).into()
    }
}

/// `None`, and the values of the type.
impl<T: Absurd> Absurd for Option<T> {
    fn values() -> Vec<Self> {
        std::iter::once(None).chain(T::values().into_iter().map(Some)).collect()
    }
}

/// Runs an expression for all combinations of values.
macro_rules! each {
    ([] $body:expr) => { $body };
    ([$arg:ident: $ty:ty $(, $more:ident: $of:ty)*] $body:expr) => {
        for $arg in &<$ty as $crate::values::Absurd>::values() {
            each!([$($more: $of),*] $body)
        }
    };
}

/// Traces calls of functions of one tensor, for all types of the tensor and all combinations of the other
/// arguments.
macro_rules! calls {
    ($report:ident, $types:expr; $(|$x:ident $(, $arg:ident: $ty:ty)*| $body:expr;)*) => {$(
        for ty in &$types {
            each!([$($arg: $ty),*] {
                let arguments = || format!("{:?}", ($($arg,)*));
                $report.traced(stringify!($body), &(), &[ty], &arguments, &|x| {
                    let $x = x[0];
                    _ = $x;
                    _ = $body;
                })
            });
        }
    )*};
}

/// Like `calls`, for functions of two tensors.
macro_rules! pairs {
    ($report:ident; $(|$x:ident, $y:ident $(, $arg:ident: $ty:ty)*| $body:expr;)*) => {$(
        for first in &$crate::types() {
            for second in &$crate::few_types() {
                each!([$($arg: $ty),*] {
                    let arguments = || format!("{:?}", ($($arg,)*));
                    $report.traced(stringify!($body), &(), &[first, second], &arguments, &|x| {
                        let ($x, $y) = (x[0], x[1]);
                        _ = $body;
                    })
                });
            }
        }
    )*};
}

/// Like `calls`, for functions of three tensors.
macro_rules! triples {
    ($report:ident; $(|$x:ident, $y:ident, $z:ident $(, $arg:ident: $ty:ty)*| $body:expr;)*) => {$(
        for first in &$crate::few_types() {
            for second in &$crate::few_types() {
                for third in &$crate::few_types() {
                    each!([$($arg: $ty),*] {
                        let arguments = || format!("{:?}", ($($arg,)*));
                        $report.traced(stringify!($body), &(), &[first, second, third], &arguments, &|x| {
                            let ($x, $y, $z) = (x[0], x[1], x[2]);
                            _ = $body;
                        })
                    });
                }
            }
        }
    )*};
}

pub(crate) use {calls, each, pairs, triples};
