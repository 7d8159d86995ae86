//! Options of tasks: `--name number`.

/// Reads options into the variables that have their names.
///
/// # Errors
/// When an option is unknown or has no number.
pub(crate) fn read(arguments: &[String], known: &mut [(&str, &mut u64)]) -> Result<(), String> {
    for pair in arguments.chunks(2) {
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let Some(at) = known.iter().position(|(name, _)| *name == pair[0]) else {
            return Err(format!("the option {} is unknown; there are {}", pair[0], names()));
        };
        let number = pair.get(1).and_then(|text| text.parse().ok());
        *known[at].1 = number.ok_or_else(|| format!("{} needs a number", pair[0]))?;
    }
    Ok(())
}
