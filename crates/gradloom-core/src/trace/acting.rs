//! The user's calls in progress, which provide method names for error messages, and source locations for ops
//! that have none.
//!
//! In: the beginning of a method or a layer. Out: a guard. While it is alive, errors of ops name the
//! outermost method, and an op whose caller is not in the user's code gets the location of the innermost call
//! in progress that is in the user's code. The caller's location is lost in this crate's closures, behind
//! `dyn`, and where a method is passed as a path: the compiler then reports the standard library's
//! `function.rs`. Invariant: no recorded location lies in the standard library or in this crate, unless the
//! trace itself was begun there.

use super::scope::{Scope, with_scope, with_scope_of};
use crate::ir::Origin;
use std::panic::Location;
use std::sync::OnceLock;

/// A guard that ends the call when dropped. See [`acting`] and [`within`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Acting {
    /// Generation of the call's trace; `None` if there is nothing to restore.
    generation: Option<u32>,
    /// True if this guard, and not an outer one, set the name.
    is_named: bool,
    /// True if this guard added a location.
    is_placed: bool,
}

/// Makes errors of the open trace refer to the method `name`, until the guard is dropped. Ops whose own
/// location is lost get that of the method's caller.
///
/// Does nothing on WebAssembly: the code would add kilobytes to the module, and the page already has the name
/// of the op that it called.
#[track_caller]
#[inline]
pub(crate) fn acting(name: &'static str) -> Acting {
    begin(Some(name))
}

/// Records the caller's location for ops whose own location is lost, until the guard is dropped. Layers and
/// blocks call this function instead of [`acting`], so that their errors keep the names of the methods that
/// they call.
#[track_caller]
#[inline]
pub(crate) fn within() -> Acting {
    begin(None)
}

#[track_caller]
#[inline]
fn begin(name: Option<&'static str>) -> Acting {
    if cfg!(target_family = "wasm") {
        return Acting { generation: None, is_named: false, is_placed: false };
    }
    let caller = Origin::caller();
    with_scope(|scope| {
        let is_placed = !is_internal(&caller.file);
        if is_placed {
            scope.places.push(caller);
        }
        let is_named = name.is_some() && scope.acting.is_none();
        if is_named {
            scope.acting = name;
        }
        let generation = (is_named || is_placed).then(|| scope.generation());
        Acting { generation, is_named, is_placed }
    })
}

impl Drop for Acting {
    fn drop(&mut self) {
        let Some(generation) = self.generation else { return };
        // If the trace has ended, there is nothing to restore.
        with_scope_of(generation, |scope| {
            if self.is_named {
                scope.acting = None;
            }
            if self.is_placed {
                scope.places.pop();
            }
        });
    }
}

/// Returns `true` if a file belongs to this crate or to the standard library, so that a location in it does
/// not help users.
fn is_internal(file: &str) -> bool {
    file.starts_with(own_sources()) || is_of_library(file)
}

/// Returns `true` if a file is one of the standard library's sources.
pub(crate) fn is_of_library(file: &str) -> bool {
    // Code that was compiled with the standard library has the prefix `/rustc/`; generic code that the
    // compiler instantiates in other crates has the path of the installed sources.
    file.starts_with("/rustc/") || file.starts_with(library_sources())
}

/// Returns the directory of this crate's sources as the compiler reports it, wherever the crate was built.
fn own_sources() -> &'static str {
    const OWN: &str = file!();
    OWN.strip_suffix("trace/acting.rs").expect("the name of this file")
}

/// Returns the directory of the standard library's sources as the compiler reports it in this crate.
fn library_sources() -> &'static str {
    static FOLDER: OnceLock<&str> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // A function that is passed as a path is called by code of the standard library, so
        // `Location::caller` returns the path of that code.
        fn called(f: impl FnOnce() -> &'static Location<'static>) -> &'static str {
            f().file()
        }
        let file = called(Location::caller);
        let ending = "core/src/ops/function.rs".len();
        file.get(..file.len().saturating_sub(ending)).filter(|folder| !folder.is_empty()).unwrap_or(file)
    })
}

impl Scope {
    /// Returns the origin to record for a caller: its own location or, if that is in the standard library or
    /// in this crate, the location of the user's innermost call in progress.
    pub(crate) fn origin_of(&self, caller: Origin) -> Origin {
        if let Some(foreign) = &self.foreign {
            return foreign.clone();
        }
        if !is_internal(&caller.file) {
            return caller;
        }
        self.places.last().unwrap_or(&self.root).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        assert!(is_internal(file!()));
        assert!(is_internal("/rustc/0123abcd/library/core/src/option.rs"));
        let shim = {
            fn called(f: impl FnOnce() -> Origin) -> Origin {
                f()
            }
            called(Origin::caller)
        };
        assert!(shim.file.ends_with("function.rs"), "{shim}");
        assert!(is_of_library(&shim.file), "{shim}");
        assert!(is_of_library(&format!("{}alloc/src/boxed.rs", library_sources())));
        // Users' directories may contain the same names, which must not count as internal.
        assert!(!is_internal("library/core/model.rs") && !is_internal("/home/me/rustc/model.rs"));
        assert!(!is_internal("src/model.rs"));
    }
}
