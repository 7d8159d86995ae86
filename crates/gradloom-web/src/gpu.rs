//! Functions that the script provides to the module to access the page's GPU.

use gradloom_webgpu::{WebCopy, WebKernel, WebRange};

#[cfg(target_arch = "wasm32")]
mod script {
    #[link(wasm_import_module = "gpu")]
    unsafe extern "C" {
        pub(crate) safe fn buffer(bytes: usize) -> u32;
        pub(crate) safe fn drop_buffer(buffer: u32);
        pub(crate) fn write(buffer: u32, offset: usize, bytes: *const u8, length: usize);
        pub(crate) safe fn program() -> u32;
        pub(crate) safe fn drop_program(program: u32);
        pub(crate) safe fn staging(program: u32, bytes: usize);
        pub(crate) safe fn clear(program: u32, buffer: u32, start: usize, bytes: usize);
        pub(crate) fn dispatch(
            program: u32,
            once: u32,
            source: *const u8,
            source_length: usize,
            label: *const u8,
            label_length: usize,
            x: u32,
            y: u32,
            z: u32,
            bindings: *const u32,
            count: usize,
        );
        pub(crate) safe fn copy(program: u32, buffer: u32, start: usize, bytes: usize, to: usize, late: u32);
        pub(crate) safe fn pause(program: u32, dispatch: usize);
        pub(crate) safe fn submit(program: u32) -> u32;
        pub(crate) safe fn drop_ticket(ticket: u32);
    }
}

/// Stubs outside of a browser, where there is no script and no GPU is opened.
#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::too_many_arguments)]
mod script {
    macro_rules! absent {
        ($($(#[$unsafe:ident])? $name:ident($($ty:ty),*) $(-> $result:ty)?;)*) => {$(
            absent!(@ $($unsafe)? $name($($ty),*) $(-> $result)?);
        )*};
        (@ unsafe_ $name:ident($($ty:ty),*) $(-> $result:ty)?) => {
            pub(crate) unsafe fn $name($(_: $ty),*) $(-> $result)? { unreachable!("there is no script") }
        };
        (@ $name:ident($($ty:ty),*) $(-> $result:ty)?) => {
            pub(crate) fn $name($(_: $ty),*) $(-> $result)? { unreachable!("there is no script") }
        };
    }
    absent! {
        buffer(usize) -> u32;
        drop_buffer(u32);
        #[unsafe_] write(u32, usize, *const u8, usize);
        program() -> u32;
        drop_program(u32);
        staging(u32, usize);
        clear(u32, u32, usize, usize);
        #[unsafe_] dispatch(u32, u32, *const u8, usize, *const u8, usize, u32, u32, u32, *const u32, usize);
        copy(u32, u32, usize, usize, usize, u32);
        pause(u32, usize);
        submit(u32) -> u32;
        drop_ticket(u32);
    }
}

pub(crate) use script::{buffer, drop_buffer, drop_program, drop_ticket, pause, program, staging, submit};

pub(crate) fn write(buffer: u32, offset: usize, bytes: &[u8]) {
    // SAFETY: the script reads the bytes before it returns.
    unsafe { script::write(buffer, offset, bytes.as_ptr(), bytes.len()) };
}

pub(crate) fn clear(program: u32, range: WebRange) {
    script::clear(program, range.buffer, range.start, range.bytes);
}

pub(crate) fn copy(program: u32, copy: &WebCopy) {
    let WebCopy { from, to, late } = *copy;
    script::copy(program, from.buffer, from.start, from.bytes, to, u32::from(late));
}

pub(crate) fn dispatch(program: u32, kernel: &WebKernel<'_>) {
    let WebKernel { once, label, source, workgroups: [x, y, z], bindings, .. } = *kernel;
    let numbers = |(range, writable): &(WebRange, bool)| {
        [range.buffer, range.start as u32, range.bytes as u32, u32::from(*writable)]
    };
    let bindings: Vec<u32> = bindings.iter().flat_map(numbers).collect();
    // SAFETY: the script reads texts and numbers before it returns.
    unsafe {
        script::dispatch(
            program,
            u32::from(once),
            source.as_ptr(),
            source.len(),
            label.as_ptr(),
            label.len(),
            x,
            y,
            z,
            bindings.as_ptr(),
            bindings.len() / 4,
        );
    }
}
