//! Derive macro for gradloom modules.
