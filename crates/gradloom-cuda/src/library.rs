//! Functions of NVIDIA's libraries, which are opened when they are first needed.

/// Makes the struct `Functions`, each field of which is a function of a library, in its documented type. The
/// library stays open as long as the functions are used.
macro_rules! library {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        #[derive(Debug)]
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: libloading::Library,
        }

        impl Functions {
            /// Opens the first of these files that is a library; returns `None` if none is, or if it lacks a
            /// function.
            fn open(places: impl IntoIterator<Item = std::path::PathBuf>) -> Option<Self> {
                // SAFETY: the initialization code of NVIDIA's library is sound.
                let open = |path| unsafe { libloading::Library::new(path) }.ok();
                let library = places.into_iter().find_map(open)?;
                // SAFETY: each field has the documented type of its function, and the library is stored with
                // the functions.
                let functions = unsafe { ($(*library.get($symbol).ok()?,)*) };
                let ($($field,)*) = functions;
                Some(Self { $($field,)* _library: library })
            }
        }
    };
}
pub(crate) use library;
