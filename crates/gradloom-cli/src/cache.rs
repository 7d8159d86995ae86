//! Where measurements are kept between runs.

use std::ffi::OsString;
use std::path::PathBuf;

/// gradloom's folder in the user's cache folder, as the system's conventions have it. It may not be there yet.
pub(crate) fn folder() -> Option<PathBuf> {
    users(|name| std::env::var_os(name)).map(|folder| folder.join("gradloom"))
}

/// The user's cache folder.
fn users(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // By the XDG specification, a relative path is to be ignored.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = absolute("XDG_CACHE_HOME") {
        return Some(folder);
    }
    if cfg!(windows) {
        return absolute("LOCALAPPDATA");
    }
    let home = absolute("HOME")?;
    Some(if cfg!(target_os = "macos") { home.join("Library/Caches") } else { home.join(".cache") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_systems_conventions() {
        let set = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| OsString::from(pair.1))
        };
        assert_eq!(users(set(&[])), None);
        if cfg!(target_os = "linux") {
            assert_eq!(users(set(&[("HOME", "/home/a")])), Some("/home/a/.cache".into()));
            assert_eq!(users(set(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/home/a")])), Some("/c".into()));
            assert_eq!(
                users(set(&[("XDG_CACHE_HOME", "c"), ("HOME", "/home/a")])),
                Some("/home/a/.cache".into())
            );
        }
    }
}
