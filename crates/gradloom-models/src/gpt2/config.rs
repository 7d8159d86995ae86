//! Configuration of GPT-2, and its validation.

use serde::{Deserialize, Serialize};

/// Configuration of a GPT-2 model.
///
/// The serialized keys are the field names. An unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpt2Config {
    /// Size of the vocabulary.
    pub vocabulary: usize,
    /// Context length: the maximum number of tokens that the model can read.
    pub context: usize,
    /// Width of the hidden state.
    pub width: usize,
    /// Number of attention heads in each layer; must divide the width.
    pub heads: usize,
    /// Number of layers.
    pub layers: usize,
    /// Dropout probability in `0..1` during training, applied after the embedding, to the attention
    /// weights, and to each residual branch.
    pub dropout: f64,
    /// Width of the MLPs' hidden layer, or `None` for four times `width`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlp_width: Option<usize>,
    /// Constant added to the variance in each layer normalization to avoid division by zero.
    #[serde(default = "usual_epsilon", skip_serializing_if = "is_usual")]
    pub epsilon: f64,
    /// True if the output layer is tied to the token embedding, as in the published models.
    #[serde(default = "is_tied", skip_serializing_if = "Clone::clone")]
    pub tied: bool,
}

const EPSILON: f64 = 1e-5;

fn is_tied() -> bool {
    true
}

fn usual_epsilon() -> f64 {
    EPSILON
}

fn is_usual(epsilon: &f64) -> bool {
    *epsilon == EPSILON
}

impl Default for Gpt2Config {
    /// Returns [`Gpt2Config::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Maximum number of layers, ten times that of GPT-2 XL, which compiles in seconds. Time and memory of
/// compilation are proportional to the number of layers.
pub const MOST_LAYERS: usize = 512;

/// Maximum number of candidates tried in the search for a number of heads that divides the width. It exceeds
/// the largest valid width.
const SEARCHED: usize = 1 << 16;

/// Returns `true` if the elements of a tensor can be indexed with `i32`.
pub(crate) fn countable(rows: usize, columns: usize) -> bool {
    rows.checked_mul(columns).is_some_and(|n| n <= i32::MAX as usize)
}

/// An error in the configuration of a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A size is 0.
    #[error("{field} is 0")]
    Zero {
        /// Name of the field.
        field: &'static str,
    },
    /// The number of heads does not divide the width.
    #[error("width {width} is not divisible by {heads} heads")]
    HeadsDoNotDivideWidth {
        /// Configured width.
        width: usize,
        /// Configured number of heads.
        heads: usize,
    },
    /// The dropout is negative, 1 or more, or not a number.
    #[error("dropout {dropout} is not at least 0 and below 1")]
    Dropout {
        /// Configured dropout.
        dropout: f64,
    },
    /// A tensor would have more elements than an `i32` can index, or the model more bytes than the address
    /// space.
    #[error("{what} of this configuration is too large")]
    TooLarge {
        /// Name of the tensor or part.
        what: &'static str,
        /// Fields that cause the error, with their values.
        sizes: Vec<(&'static str, usize)>,
    },
    /// The number of key heads does not divide the number of query heads.
    #[error("{heads} heads of queries do not share {key_heads} heads of keys evenly")]
    KeyHeads {
        /// Configured number of query heads.
        heads: usize,
        /// Configured number of key heads.
        key_heads: usize,
    },
    /// The width of a head is odd, so its elements cannot be rotated in pairs.
    #[error("a head of {0} elements has no pairs to turn")]
    OddDepth(usize),
    /// A number is not positive and finite.
    #[error("{name} {value} is not a number above 0")]
    NotPositive {
        /// Name of the field.
        name: &'static str,
        /// Configured value.
        value: f64,
    },
    /// The model has more layers than can be compiled in reasonable time.
    #[error("{layers} layers are more than the {MOST_LAYERS} that can be compiled")]
    TooDeep {
        /// Configured number of layers.
        layers: usize,
    },
}

impl ConfigError {
    /// Returns a suggestion for fixing the error.
    pub fn remedy(&self) -> String {
        match self {
            ConfigError::Zero { field } => format!("set {field} to 1 or more"),
            ConfigError::HeadsDoNotDivideWidth { width, heads } => {
                // Search down from the number of heads, or from the width if that is smaller: no divisor of
                // the width exceeds it.
                let divisor = (1..=*heads.min(width)).rev().take(SEARCHED).find(|d| width % d == 0);
                let divisor =
                    divisor.map(|divisor| format!("{divisor} head{}", if divisor == 1 { "" } else { "s" }));
                let below = width / heads * heads;
                let widths: Vec<String> = [Some(below).filter(|width| *width > 0), below.checked_add(*heads)]
                    .into_iter()
                    .flatten()
                    .filter(|width| countable(*width, width.saturating_mul(4)))
                    .map(|width| width.to_string())
                    .collect();
                let widths = Some(widths.join(" or ")).filter(|widths| !widths.is_empty());
                let widths = widths.map(|widths| format!("width {widths}"));
                let known: Vec<String> = [widths, divisor].into_iter().flatten().collect();
                if known.is_empty() {
                    "take fewer heads".into()
                } else {
                    format!("take {}", known.join(", or "))
                }
            }
            ConfigError::Dropout { .. } => "take a probability such as 0.1, or 0 for none".to_string(),
            ConfigError::KeyHeads { .. } => "take a number of key heads that divides the heads".to_string(),
            ConfigError::OddDepth(_) => "take an even length".to_string(),
            ConfigError::NotPositive { name: "epsilon", .. } => {
                "take a small number such as 0.00001".to_string()
            }
            ConfigError::NotPositive { .. } => "take a finite number above 0".to_string(),
            ConfigError::TooLarge { sizes, .. } => {
                let fields: Vec<&str> = sizes.iter().map(|(field, _)| *field).collect();
                format!("take a smaller {}", fields.join(" or "))
            }
            ConfigError::TooDeep { .. } => "take fewer layers".to_string(),
        }
    }
}

impl Gpt2Config {
    /// Configuration of the smallest published model, with 124 million parameters, but without dropout.
    pub const DEFAULT: Self = Self {
        vocabulary: 50257,
        context: 1024,
        width: 768,
        heads: 12,
        layers: 12,
        dropout: 0.0,
        mlp_width: None,
        epsilon: EPSILON,
        tied: true,
    };

    /// Returns the width of the MLPs' hidden layer.
    pub fn mlp_width(&self) -> usize {
        self.mlp_width.unwrap_or(self.width.saturating_mul(4))
    }

    /// Returns the number of trainable parameters. A tied output layer is not counted separately.
    ///
    /// The result is only meaningful if [`validate`](Self::validate) accepts the configuration.
    pub fn parameters(&self) -> usize {
        let square = self.width.saturating_mul(self.width);
        let mlp = self.width.saturating_mul(2).saturating_add(1).saturating_mul(self.mlp_width());
        let block = square.saturating_mul(4).saturating_add(self.width.saturating_mul(9)).saturating_add(mlp);
        let tokens = self.vocabulary.saturating_mul(2 - usize::from(self.tied));
        let vectors = tokens.saturating_add(self.context).saturating_add(2);
        block.saturating_mul(self.layers).saturating_add(vectors.saturating_mul(self.width))
    }

    /// Checks that a model can be built from the configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("vocabulary", self.vocabulary),
            ("context", self.context),
            ("width", self.width),
            ("heads", self.heads),
            ("layers", self.layers),
            ("mlp_width", self.mlp_width()),
        ];
        if let Some((field, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(ConfigError::Zero { field });
        }
        let width = ("width", self.width);
        let too_large = |what, sizes: &[(&'static str, usize)]| {
            Err(ConfigError::TooLarge { what, sizes: sizes.to_vec() })
        };
        // The width is checked first, so that an error names no other field if the width is the cause, and so
        // that an error about heads has a valid width.
        if !countable(self.mlp_width(), self.width) {
            let sizes = [width, ("mlp_width", self.mlp_width())];
            return too_large("the MLP", &sizes[..1 + usize::from(self.mlp_width.is_some())]);
        }
        if !countable(self.width.saturating_mul(3), self.width) {
            return too_large("attention", &[width]);
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(ConfigError::HeadsDoNotDivideWidth { width: self.width, heads: self.heads });
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::Dropout { dropout: self.dropout });
        }
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            return Err(ConfigError::NotPositive { name: "epsilon", value: self.epsilon });
        }
        if self.layers > MOST_LAYERS {
            return Err(ConfigError::TooDeep { layers: self.layers });
        }
        for (what, field, rows) in [
            ("the token embedding", "vocabulary", self.vocabulary),
            ("the position embedding", "context", self.context),
        ] {
            if !countable(rows, self.width) {
                return too_large(what, &[(field, rows), width]);
            }
        }
        // Count the parameters, their gradients and two moments, with four bytes each.
        match self.parameters().checked_mul(16) {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
            _ => too_large("the model", &[("layers", self.layers), width]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Gpt2Config {
        Gpt2Config { vocabulary: 256, context: 128, width: 128, heads: 4, layers: 4, ..Gpt2Config::default() }
    }

    #[test]
    fn each_zero_is_named() {
        type Set = fn(&mut Gpt2Config);
        let cases: [(&str, Set); 5] = [
            ("vocabulary", |c| c.vocabulary = 0),
            ("context", |c| c.context = 0),
            ("width", |c| c.width = 0),
            ("heads", |c| c.heads = 0),
            ("layers", |c| c.layers = 0),
        ];
        for (field, set) in cases {
            let mut config = config();
            set(&mut config);
            assert_eq!(config.validate(), Err(ConfigError::Zero { field }));
        }
    }

    #[test]
    fn an_indivisible_width_offers_what_fits() {
        let error = Gpt2Config { width: 130, heads: 4, ..config() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "width 130 is not divisible by 4 heads");
        assert_eq!(error.remedy(), "take width 128 or 132, or 2 heads");
        let error = Gpt2Config { width: 3, heads: 4, ..config() }.validate().unwrap_err();
        assert_eq!(error.remedy(), "take width 4, or 3 heads");
    }

    #[test]
    fn a_remedy_is_found_at_once_for_any_sizes() {
        let remedy = |width, heads| ConfigError::HeadsDoNotDivideWidth { width, heads }.remedy();
        assert_eq!(remedy(8, usize::MAX), "take 8 heads");
        assert_eq!(remedy(8, usize::MAX - 1), "take 8 heads");
        assert_eq!(remedy(23_167, 23_166), "take width 23166, or 1 head");
        assert_eq!(remedy(usize::MAX, usize::MAX - 1), "take fewer heads");
        // 2^61 - 1 is prime, so the search would have to try every candidate.
        assert_eq!(remedy((1 << 61) - 1, 1 << 60), "take fewer heads");
        for heads in [7, 1 << 31, 1 << 63, usize::MAX] {
            let error = Gpt2Config { width: 8, heads, ..config() }.validate().unwrap_err();
            assert_eq!(error, ConfigError::HeadsDoNotDivideWidth { width: 8, heads });
            let error = Gpt2Config { width: usize::MAX - 1, heads, ..config() }.validate().unwrap_err();
            assert_eq!(error.remedy(), "take a smaller width");
        }
    }

    #[test]
    fn dropout_is_a_probability_below_one() {
        for dropout in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            let error = Gpt2Config { dropout, ..config() }.validate().unwrap_err();
            assert!(matches!(error, ConfigError::Dropout { .. }), "{dropout}");
        }
        assert_eq!(Gpt2Config { dropout: 0.999, ..config() }.validate(), Ok(()));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        for huge in [1 << 31, 1 << 62, usize::MAX] {
            let wide = Gpt2Config { width: huge, heads: 1, ..config() };
            assert!(matches!(wide.validate(), Err(ConfigError::TooLarge { .. })), "width {huge}");
            let long = Gpt2Config { context: huge, ..config() };
            assert!(matches!(long.validate(), Err(ConfigError::TooLarge { .. })), "context {huge}");
        }
        let error = Gpt2Config { width: 1 << 31, heads: 1, ..config() }.validate().unwrap_err();
        assert_eq!(error.remedy(), "take a smaller width");
        let error = Gpt2Config { context: 1 << 31, ..config() }.validate().unwrap_err();
        assert_eq!(error.remedy(), "take a smaller context or width");
        assert_eq!(Gpt2Config { layers: MOST_LAYERS, ..config() }.validate(), Ok(()));
        for layers in [MOST_LAYERS + 1, 1_000_000_000, usize::MAX] {
            let deep = Gpt2Config { layers, ..config() };
            assert_eq!(deep.validate(), Err(ConfigError::TooDeep { layers }));
        }
    }

    #[test]
    fn unknown_keys_are_named() {
        let text = r#"{"vocabulary":1,"context":1,"width":1,"heads":1,"layers":1,"dropout":0,"hedas":2}"#;
        let error = serde_json::from_str::<Gpt2Config>(text).unwrap_err();
        assert!(error.to_string().contains("unknown field `hedas`"), "{error}");
    }

    #[test]
    fn json_round_trips() {
        let config = Gpt2Config { dropout: 0.1, ..config() };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Gpt2Config>(&text).unwrap(), config);
    }
}
