//! The name under which a function that is made of other ops speaks in messages: the one that the user
//! called.
//!
//! In: the name of a method, when it begins. Out: a guard; while it lives, errors of the ops inside name the
//! method instead. Always holds: the outermost method is named.

use super::scope::{with_scope, with_scope_of};
use crate::ir::Origin;

/// Ends the method's name. See [`acting`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Acting {
    /// The trace in which the name was set; none where an outer method has set it.
    generation: Option<u32>,
}

/// Has the errors of the open trace name the method `name`, until the guard is dropped. What is asked for
/// from inside a closure of the method, where the caller's place is lost, stands at the method's caller.
///
/// In a browser's module, where it would take kilobytes, it does nothing: the page knows which op it called.
#[track_caller]
#[inline]
pub(crate) fn acting(name: &'static str) -> Acting {
    if cfg!(target_family = "wasm") {
        return Acting { generation: None };
    }
    let caller = Origin::caller();
    with_scope(|scope| {
        let generation = scope.acting.is_none().then(|| scope.generation());
        scope.acting.get_or_insert((name, caller));
        Acting { generation }
    })
}

impl Drop for Acting {
    fn drop(&mut self) {
        if let Some(generation) = self.generation {
            // The trace may have ended: then there is nothing to take back.
            with_scope_of(generation, |scope| scope.acting = None);
        }
    }
}
