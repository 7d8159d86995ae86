//! Elementwise comparisons.

use super::table;
use std::cmp::Ordering;

struct Properties {
    name: &'static str,
    /// Returns `true` if the comparison holds for this ordering, which is `None` if an operand is NaN.
    holds: fn(Option<Ordering>) -> bool,
}

impl Properties {
    const DEFAULT: Properties = Properties { name: "", holds: |_| false };
}

table! {
    /// Elementwise comparisons. If an operand is NaN, only `Ne` holds.
    pub enum CompareOp: Properties {
        Eq { name: "eq", holds: |order| order.is_some_and(Ordering::is_eq) }
        Ne { name: "ne", holds: |order| order.is_none_or(Ordering::is_ne) }
        Lt { name: "lt", holds: |order| order.is_some_and(Ordering::is_lt) }
        Le { name: "le", holds: |order| order.is_some_and(Ordering::is_le) }
        Gt { name: "gt", holds: |order| order.is_some_and(Ordering::is_gt) }
        Ge { name: "ge", holds: |order| order.is_some_and(Ordering::is_ge) }
    }
}

impl CompareOp {
    /// Returns `true` if the comparison holds for two elements.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        (self.row().holds)(a.partial_cmp(b))
    }
}
