//! Validation of shaders, without a GPU.
//!
//! In: a dispatch, and the limits for which it was generated. naga must accept the text and convert it to
//! SPIR-V, MSL and HLSL; the shader must respect the limits, and its bindings must be those of the dispatch.
//! If the command `tint` is installed, it must accept the text, too: in contrast to naga, it checks that all
//! invocations of a workgroup reach the barriers.

use gradloom_codegen::wgsl::{Bound, Dispatch, Limits};
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, StorageAccess, TypeInner};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Validates a shader, and converts it for all drivers.
///
/// # Panics
/// Panics if the shader is invalid; the message contains the shader's text.
#[track_caller]
pub(crate) fn check(dispatch: &Dispatch, limits: &Limits) {
    let numbered = || {
        let lines = dispatch.source.lines().enumerate();
        lines.map(|(i, line)| format!("{:4} {line}\n", i + 1)).collect::<String>()
    };
    if let Err(message) = check_with_naga(dispatch, limits).and_then(|()| check_with_tint(&dispatch.source)) {
        panic!("{}: {message}\n{}", dispatch.label, numbered());
    }
}

fn check_with_naga(dispatch: &Dispatch, limits: &Limits) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(&dispatch.source)
        .map_err(|error| error.emit_to_string(&dispatch.source))?;
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::SUBGROUP, limits.subgroup.is_some());
    capabilities.set(Capabilities::SHADER_FLOAT16, limits.f16);
    capabilities.set(Capabilities::COOPERATIVE_MATRIX, limits.cooperative);
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
        .subgroup_operations(naga::valid::SubgroupOperationSet::all())
        .validate(&module)
        .map_err(|error| error.emit_to_string(&dispatch.source))?;
    check_limits(&module, dispatch, limits)?;
    check_bindings(&module, &dispatch.bindings)?;
    // Shaders with cooperative matrices are converted to SPIR-V only, because naga's MSL and HLSL backends do
    // not support them.
    print(&module, &info, limits.cooperative)
}

fn check_limits(module: &Module, dispatch: &Dispatch, limits: &Limits) -> Result<(), String> {
    let [entry] = &module.entry_points[..] else { return Err("has not one entry point".into()) };
    let size = entry.workgroup_size;
    if entry.name != "main" || size.iter().product::<u32>() > limits.invocations || size[1] * size[2] != 1 {
        return Err(format!("entry point {} of {size:?} invocations", entry.name));
    }
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).map_err(|error| error.to_string())?;
    let shared = module.global_variables.iter().filter(|(_, v)| v.space == AddressSpace::WorkGroup);
    let shared: u32 = shared.map(|(_, v)| layouter[v.ty].size.next_multiple_of(16)).sum();
    if shared > limits.workgroup_memory {
        return Err(format!("{shared} bytes of workgroup memory, there are {}", limits.workgroup_memory));
    }
    if dispatch.workgroups.iter().any(|&count| count == 0 || count > limits.workgroups) {
        return Err(format!("{:?} workgroups", dispatch.workgroups));
    }
    match dispatch.bindings.len() > limits.storage_buffers {
        true => Err(format!("{} bindings, there are {}", dispatch.bindings.len(), limits.storage_buffers)),
        false => Ok(()),
    }
}

fn check_bindings(module: &Module, bindings: &[Bound]) -> Result<(), String> {
    let mut declared = vec![None; bindings.len()];
    for (_, variable) in module.global_variables.iter() {
        let Some(place) = variable.binding else { continue };
        let AddressSpace::Storage { access } = variable.space else {
            return Err(format!("binding {} is no storage buffer", place.binding));
        };
        let slot = declared.get_mut(place.binding as usize).filter(|_| place.group == 0);
        *slot.ok_or("a binding that the dispatch does not have")? =
            Some(access.contains(StorageAccess::STORE));
        if !matches!(module.types[variable.ty].inner, TypeInner::Array { .. }) {
            return Err(format!("binding {} is no array", place.binding));
        }
    }
    for (number, (bound, written)) in bindings.iter().zip(declared).enumerate() {
        let expected = match bound {
            Bound::Operand(_) | Bound::Piece(..) => written,
            Bound::Workspace(_) => Some(true),
            Bound::Table(_) => Some(false),
            Bound::Status { writable } => Some(*writable),
        };
        if written.is_none() || written != expected {
            return Err(format!("binding {number} is {bound:?}, declared with write access: {written:?}"));
        }
    }
    Ok(())
}

fn print(module: &Module, info: &ModuleInfo, cooperative: bool) -> Result<(), String> {
    let options = spv::Options { lang_version: (1, 3), ..Default::default() };
    spv::write_vec(module, info, &options, None).map_err(|error| format!("as SPIR-V: {error}"))?;
    if cooperative {
        return Ok(());
    }
    let options = msl::Options { lang_version: (2, 4), ..Default::default() };
    msl::write_string(module, info, &options, &Default::default())
        .map_err(|error| format!("as MSL: {error}"))?;
    let (mut text, shader_model) = (String::new(), hlsl::ShaderModel::V6_2);
    let options = hlsl::Options { shader_model, ..Default::default() };
    hlsl::Writer::new(&mut text, &options, &Default::default())
        .write(module, info, None)
        .map_err(|error| format!("as HLSL: {error}"))?;
    Ok(())
}

/// Performs the checks of browsers if `tint` is installed. Shaders that only native drivers support are
/// skipped.
fn check_with_tint(source: &str) -> Result<(), String> {
    if !tint_is_installed() || source.contains("enable wgpu_") || source.contains("subgroup_id") {
        return Ok(());
    }
    // Add the directive for subgroup operations, which tint requires, in contrast to naga.
    let header = if source.contains("subgroup") { "enable subgroups;\n" } else { "" };
    let mut tint = Command::new("tint")
        .args(["--input-format", "wgsl", "--format", "wgsl", "-o", "/dev/null", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("tint: {error}"))?;
    let mut stdin = tint.stdin.take().expect("it was asked for");
    stdin.write_all(format!("{header}{source}").as_bytes()).map_err(|error| format!("tint: {error}"))?;
    drop(stdin);
    let output = tint.wait_with_output().map_err(|error| format!("tint: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("tint: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn tint_is_installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let found = Command::new("tint").arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_err() {
            eprintln!("tint is not installed: its checks are left out");
        }
        found.is_ok()
    })
}
