//! Silencing of messages that GPU drivers print.
//!
//! Mesa's Vulkan layer asks Wayland for the display's GPU, and libwayland prints an error on a machine
//! without a display; lavapipe warns that it is not conformant. Both look like errors of this command,
//! although they do not concern the user's request.

/// Environment variables that silence drivers; each is set only if the user has not set it.
#[cfg(unix)]
const QUIET: [(&str, &str); 2] = [
    // Without a socket in this folder, there is still no display to connect to, but no error is printed.
    ("XDG_RUNTIME_DIR", "/nonexistent"),
    ("MESA_VK_IGNORE_CONFORMANCE_WARNING", "1"),
];

/// Silences drivers, except where the user has set a variable. Must be called before any thread is started.
#[cfg(unix)]
pub(crate) fn keep_quiet() {
    for (name, value) in QUIET {
        if std::env::var_os(name).is_none() {
            // SAFETY: no other thread reads the environment. This runs before the command starts any thread;
            // the process's first thread, if this is another one because of a small stack (`limits`), only
            // waits for this one.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Changes nothing, since drivers print nothing on other systems.
#[cfg(not(unix))]
pub(crate) fn keep_quiet() {}
