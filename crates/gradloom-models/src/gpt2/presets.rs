//! Named configurations.

use super::Gpt2Config;

/// A named configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// Purpose of the preset in one line.
    pub about: &'static str,
    /// Configuration of the model.
    pub config: Gpt2Config,
}

const fn bytes(layers: usize, heads: usize, width: usize, context: usize) -> Gpt2Config {
    Gpt2Config { vocabulary: 256, context, width, heads, layers, ..Gpt2Config::DEFAULT }
}

/// Returns the configuration of a published GPT-2 model: Radford et al. (2019), table 2, with the head counts
/// of the published weights.
const fn published(layers: usize, heads: usize, width: usize) -> Gpt2Config {
    Gpt2Config { width, heads, layers, dropout: 0.1, ..Gpt2Config::DEFAULT }
}

/// All presets, smallest first.
pub const PRESETS: [Preset; 6] = [
    Preset { name: "tiny", about: "bytes; trains in minutes on two cores", config: bytes(4, 4, 128, 128) },
    Preset { name: "small", about: "bytes; trains in an hour on a few cores", config: bytes(6, 6, 384, 256) },
    Preset { name: "gpt2", about: "the published 124M shape", config: published(12, 12, 768) },
    Preset { name: "gpt2-medium", about: "the published 355M shape", config: published(24, 16, 1024) },
    Preset { name: "gpt2-large", about: "the published 774M shape", config: published(36, 20, 1280) },
    Preset { name: "gpt2-xl", about: "the published 1.5B shape", config: published(48, 25, 1600) },
];

impl Preset {
    /// Returns the preset with this name.
    pub fn find(name: &str) -> Option<&'static Preset> {
        const ALL: &[Preset] = &PRESETS;
        ALL.iter().find(|preset| preset.name == name)
    }

    /// Returns the names of all presets, separated by commas.
    pub fn names() -> String {
        PRESETS.map(|preset| preset.name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_valid() {
        for preset in &PRESETS {
            assert_eq!(preset.config.validate(), Ok(()), "{}", preset.name);
        }
    }

    /// Parameter counts of the published checkpoints (Hugging Face `gpt2*`, without the tied output layer).
    #[test]
    fn parameter_counts_are_the_published_ones() {
        let counts = [
            ("gpt2", 124_439_808),
            ("gpt2-medium", 354_823_168),
            ("gpt2-large", 774_030_080),
            ("gpt2-xl", 1_557_611_200),
        ];
        for (name, count) in counts {
            assert_eq!(Preset::find(name).unwrap().config.parameters(), count, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_finds_nothing() {
        assert_eq!(Preset::find("gpt3"), None);
        assert_eq!(Preset::names(), "tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl");
    }
}
