//! Template engine with the filters, functions and methods that transformers provides.
//!
//! In: a template and its variables. Out: a text, or an error with its line number. Invariant: a template
//! terminates within a limited number of steps, accesses only its variables and this environment, and never
//! aborts the process.

use super::jinja::{self, Fault};
use super::python;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};
use std::panic::{self, AssertUnwindSafe};
use std::time::{SystemTime, UNIX_EPOCH};

/// Limit on the steps of a template. Rendering a few messages takes hundreds of them.
const STEPS: u64 = 10_000_000;

pub(super) fn rendered(template: &str, variables: Value, now: SystemTime) -> Result<String, Fault> {
    caught(|| {
        let template = jinja::readable(template)?;
        environment(now).render_named_str("template", &template, variables).map_err(|error| {
            let reason = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
            (error.line().unwrap_or(0), reason)
        })
    })
}

/// Calls `make` and converts a panic into a template error, because an untrusted file must not crash the
/// process.
fn caught(make: impl FnOnce() -> Result<String, jinja::Fault>) -> Result<String, jinja::Fault> {
    panic::catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        Err((0, format!("it made the engine of templates panic: {text}")))
    })
}

fn environment(now: SystemTime) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("the usual signs"),
    );
    environment.set_fuel(Some(STEPS));
    python::add_to(&mut environment);
    environment.set_unknown_method_callback(python::method);
    environment.add_filter("tojson", python::to_json);
    environment.add_filter(jinja::ATTRIBUTE, python::attribute);
    environment.add_filter(jinja::PERCENT, |left: &Value, right: &Value| python::percent(left, right));
    environment.add_function(jinja::EACH, python::each);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    // Use 1970 in place of an earlier time, which no template can need.
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    environment.add_function("strftime_now", move |format: String| python::date(seconds as i64, &format));
    environment
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_is_a_fault_of_the_template() {
        let (line, reason) = caught(|| panic!("no {}", "frame")).unwrap_err();
        assert_eq!((line, reason.ends_with("panic: no frame")), (0, true), "{reason}");
        assert_eq!(caught(|| Ok("text".to_string())).unwrap(), "text");
    }
}
