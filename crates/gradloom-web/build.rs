//! Writes the table of ops, as Rust calls and as TypeScript.

#[path = "table/mod.rs"]
mod table;

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gradloom-core/src/trace");
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=table");
    let ops = table::read(&folder);
    let out = std::env::var("OUT_DIR").expect("cargo says where");
    for (name, text) in [("ops.rs", table::print::rust(&ops)), ("ops.ts", table::print::typescript(&ops))] {
        std::fs::write(Path::new(&out).join(name), text).expect("the build folder can be written");
    }
}
