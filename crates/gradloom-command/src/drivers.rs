//! Silencing of messages that drivers of GPUs print of their own accord.
//!
//! Mesa's Vulkan layer asks Wayland for the screen's GPU, and libwayland prints an error where a machine has
//! no display; lavapipe warns that it is not conformant. Neither is about what the user asked for, and both
//! look like errors of this command.

/// Environment variables that silence drivers; each is set only if the user has not set it.
#[cfg(unix)]
const QUIET: [(&str, &str); 2] = [
    // A folder without a socket: nothing to connect to, as before, and nothing to say about it.
    ("XDG_RUNTIME_DIR", "/nonexistent"),
    ("MESA_VK_IGNORE_CONFORMANCE_WARNING", "1"),
];

/// Keeps drivers from printing; settings that the user has made stay. To be called before any thread is
/// started.
#[cfg(unix)]
pub(crate) fn keep_quiet() {
    for (name, value) in QUIET {
        if std::env::var_os(name).is_none() {
            // SAFETY: no other thread reads the environment: this comes before all threads of the command,
            // but the first one, which waits for this one where it had no stack (`limits`).
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Drivers of other systems print nothing.
#[cfg(not(unix))]
pub(crate) fn keep_quiet() {}
