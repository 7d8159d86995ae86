//! Quantiles of the normal distribution.

/// Returns the quantile of the standard normal distribution for a probability between 0 and 1, both excluded,
/// to about seven digits. Source: algorithm AS 241, PPND7 (M. J. Wichura, 1988).
#[inline(always)]
pub(super) fn of_normal(share: f64) -> f64 {
    let q = share - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        let top = ((59.109_374_720 * r + 159.291_132_02) * r + 50.434_271_938) * r + 3.387_132_717_9;
        let bottom = ((67.187_563_600 * r + 78.757_757_664) * r + 17.895_169_469) * r + 1.0;
        return q * top / bottom;
    }
    let tail = if q < 0.0 { share } else { 1.0 - share };
    let r = (-libm::log(tail)).sqrt() - 1.6;
    let top = ((0.170_238_210_3 * r + 1.306_728_481_6) * r + 2.756_815_390_0) * r + 1.423_437_277_7;
    let bottom = (0.120_211_329_75 * r + 0.737_001_642_50) * r + 1.0;
    if q < 0.0 { -top / bottom } else { top / bottom }
}

#[cfg(test)]
mod tests {
    use super::of_normal;

    #[test]
    fn shares_give_their_numbers() {
        // Reference values from R's qnorm.
        for (share, want) in [
            (0.5, 0.0),
            (0.6, 0.253_347_103_135_799_8),
            (0.9, 1.281_551_565_544_600_4),
            (0.925, 1.439_531_470_938_456_1),
            (0.975, 1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813),
            (0.022_750_131_948_179_21, -2.0),
        ] {
            assert!((of_normal(share) - want).abs() < 1e-6, "{share}: {}", of_normal(share));
        }
    }
}
