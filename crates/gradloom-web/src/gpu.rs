//! Functions that the script provides to the module to access the page's GPU.

use gradloom_webgpu::{WebCopy, WebKernel, WebRange};

/// Declares functions of the script. Outside of a browser they are stubs: no script, and no GPU is opened.
macro_rules! functions {
    (
        safe { $($safe:ident($($argument:ident: $of:ty),*) $(-> $result:ty)?;)* }
        unsafe { $($name:ident($($given:ident: $given_of:ty),*);)* }
    ) => {
        #[cfg(target_arch = "wasm32")]
        #[link(wasm_import_module = "gpu")]
        unsafe extern "C" {
            $(pub(crate) safe fn $safe($($argument: $of),*) $(-> $result)?;)*
            $(pub(crate) unsafe fn $name($($given: $given_of),*);)*
        }
        $(
            #[cfg(not(target_arch = "wasm32"))]
            pub(crate) fn $safe($(_: $of),*) $(-> $result)? { unreachable!("there is no script") }
        )*
        $(
            #[cfg(not(target_arch = "wasm32"))]
            pub(crate) unsafe fn $name($(_: $given_of),*) { unreachable!("there is no script") }
        )*
    };
}

#[allow(clippy::too_many_arguments)]
mod script {
    functions! {
        safe {
            buffer(bytes: usize) -> u32;
            drop_buffer(buffer: u32);
            program() -> u32;
            drop_program(program: u32);
            staging(program: u32, bytes: usize);
            clear(program: u32, buffer: u32, start: usize, bytes: usize);
            copy(program: u32, buffer: u32, start: usize, bytes: usize, to: usize, late: u32);
            pause(program: u32, dispatch: usize);
            submit(program: u32) -> u32;
            drop_ticket(ticket: u32);
        }
        unsafe {
            write(buffer: u32, offset: usize, bytes: *const u8, length: usize);
            dispatch(
                program: u32, once: u32, source: *const u8, source_length: usize, label: *const u8,
                label_length: usize, x: u32, y: u32, z: u32, bindings: *const u32, count: usize
            );
        }
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
