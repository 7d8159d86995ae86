//! Lets the crate know whether it is optimised: kernels that are not are tens of times slower, and the user
//! is told.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(unoptimized)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "0") {
        println!("cargo:rustc-cfg=unoptimized");
    }
}
