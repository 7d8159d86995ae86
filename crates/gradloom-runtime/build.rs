//! Sets `cfg(unoptimized)` in builds without optimization, whose kernels are tens of times slower, so that
//! the crate can warn the user.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(unoptimized)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo:rustc-cfg=unoptimized");
    }
}
