//! Options of tasks: `--name value`.

/// Destination of an option's value.
pub(crate) enum Slot<'a> {
    Number(&'a mut u64),
    Text(&'a mut String),
}

/// Reads options into the variables with their names.
///
/// # Errors
/// Returns an error if an option is unknown or has no value, or if its value should be a number and is not.
pub(crate) fn read(arguments: &[String], known: &mut [(&str, Slot<'_>)]) -> Result<(), String> {
    for pair in arguments.chunks(2) {
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let Some(at) = known.iter().position(|(name, _)| *name == pair[0]) else {
            return Err(format!("the option {} is unknown; there are {}", pair[0], names()));
        };
        let value = pair.get(1);
        match &mut known[at].1 {
            Slot::Number(number) => {
                let read = value.and_then(|text| text.parse().ok());
                **number = read.ok_or_else(|| format!("{} needs a number", pair[0]))?;
            }
            Slot::Text(text) => {
                **text = value.ok_or_else(|| format!("{} needs a value", pair[0]))?.clone();
            }
        }
    }
    Ok(())
}
