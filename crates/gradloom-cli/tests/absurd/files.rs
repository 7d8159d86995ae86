//! Special files.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Creates one file of each kind in a folder and returns all paths, including the system's own special files.
pub(crate) fn make(folder: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(folder).unwrap();
    let path = |name: &str| folder.join(name);
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    symlink(path("pipe"), path("link-to-pipe")).unwrap();
    symlink(path("missing"), path("nowhere")).unwrap();
    symlink(path("circle"), path("circle")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("empty"), b"").unwrap();
    let noise: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(path("noise"), noise).unwrap();
    // One safetensors file declares a header of 8 EiB, the other a tensor of that size.
    fs::write(path("header"), (i64::MAX as u64).to_le_bytes()).unwrap();
    let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}}"#, u64::MAX - 100);
    fs::write(path("tensor"), [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat())
        .unwrap();
    // Create a file of one terabyte that takes no space on the disk.
    File::create(path("sparse")).unwrap().set_len(1 << 40).unwrap();
    fs::write(path("unreadable"), b"x").unwrap();
    fs::set_permissions(path("unreadable"), fs::Permissions::from_mode(0o000)).unwrap();
    let names = [
        "pipe",
        "link-to-pipe",
        "nowhere",
        "circle",
        "folder",
        "empty",
        "noise",
        "header",
        "tensor",
        "sparse",
        "unreadable",
    ];
    let system = ["/dev/zero", "/dev/full", "/dev/random", "/dev/null"].map(PathBuf::from);
    names.map(path).into_iter().chain(system.into_iter().filter(|path| path.exists())).collect()
}
