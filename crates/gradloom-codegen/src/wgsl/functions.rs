//! Functions that WGSL lacks, or for which it guarantees less than the op's documentation.
//!
//! WGSL allows compilers to assume that there are no NaNs and infinities. So the functions detect them by
//! their bits, and construct them from a variable, which compilers do not evaluate.

use crate::simt::helpers;

helpers! {
    /// Helper function of a shader.
    pub(crate) enum Function {
        IsNan "is_nan" [] = "fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
";
        FromBits "from_bits" [] = "fn from_bits(bits: u32) -> f32 {
    var hidden = bits;
    return bitcast<f32>(hidden);
}
";
        // Rounds to nearest, ties to even. Subnormal f16 are multiples of 2^-24.
        ToF16 "to_f16" [FromBits] = "fn to_f16(x: f32) -> f32 {
    let magnitude = bitcast<u32>(x) & 0x7fffffffu;
    let sign = bitcast<u32>(x) & 0x80000000u;
    if (magnitude >= 0x477ff000u) {
        return from_bits(select(sign | 0x7f800000u, bitcast<u32>(x), magnitude > 0x7f800000u));
    }
    if (magnitude < 0x38800000u) {
        return bitcast<f32>(bitcast<u32>(round(bitcast<f32>(magnitude) * 16777216.0) / 16777216.0) | sign);
    }
    return bitcast<f32>(((magnitude + 0x0fffu + ((magnitude >> 13u) & 1u)) & 0xffffe000u) | sign);
}
";
        // The argument must be representable as f16. `pack2x16float` is not used, because it converts
        // infinity to NaN on some devices.
        F16Bits "f16_bits" [] = "fn f16_bits(x: f32) -> u32 {
    let magnitude = bitcast<u32>(x) & 0x7fffffffu;
    let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
    if (magnitude >= 0x47800000u) {
        return sign | select(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
    }
    if (magnitude < 0x38800000u) {
        return sign | u32(bitcast<f32>(magnitude) * 16777216.0);
    }
    return sign | ((magnitude - 0x38000000u) >> 13u);
}
";
        ToBf16 "to_bf16" [FromBits] = "fn to_bf16(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u;
    return from_bits(select(rounded, bits | 0x00400000u, (bits & 0x7fffffffu) > 0x7f800000u));
}
";
        Max "max_or_nan" [IsNan] = "fn max_or_nan(a: f32, b: f32) -> f32 {
    return select(select(max(a, b), b, is_nan(b)), a, is_nan(a));
}
";
        Min "min_or_nan" [IsNan] = "fn min_or_nan(a: f32, b: f32) -> f32 {
    return select(select(min(a, b), b, is_nan(b)), a, is_nan(a));
}
";
        Sign "sign_or_nan" [IsNan] = "fn sign_or_nan(x: f32) -> f32 {
    return select(select(x, bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | 0x3f800000u), x != 0.0), x, is_nan(x));
}
";
        // Computes x * 0, which a compiler may replace by 0 even if x is NaN or infinite.
        TimesZero "times_zero" [FromBits] = "fn times_zero(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    return from_bits(select(bits & 0x80000000u, 0x7fc00000u, (bits & 0x7f800000u) == 0x7f800000u));
}
";
        // Handles NaN separately, because SwiftShader's `exp` returns a number for it.
        Exp "exp_or_nan" [IsNan] = "fn exp_or_nan(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}
";
        // Taylor series near zero, whose first omitted term is below half a unit in the last place.
        Expm1 "expm1" [FromBits IsNan] = "fn expm1(x: f32) -> f32 {
    if (abs(x) < 0.35) {
        let tail = 0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * (0.0013888889 + x * (0.0001984127 + x * 0.0000248016)))));
        return x + x * x * tail;
    }
    return select(exp(x) - 1.0, x, is_nan(x));
}
";
        Log1p "log1p" [FromBits IsNan Log] = "fn log1p(x: f32) -> f32 {
    if (abs(x) < 0.25) {
        let series = 0.33333313 + x * (-0.2500001 + x * (0.20002119 + x * (-0.16667996 + x * (0.14219552 + x * (-0.12405589 + x * (0.11888163 + x * (-0.11675651 + x * 0.06746638)))))));
        return x + (x * x * x * series - 0.5 * x * x);
    }
    let u = 1.0 + x;
    if (bitcast<u32>(u) >= 0x7f800000u || u <= 0.0) {
        return log_or_nan(u);
    }
    let lost = select(x - (u - 1.0), 1.0 - (u - x), u >= 2.0);
    return log_or_nan(u) + lost / u;
}
";
        Log "log_or_nan" [FromBits IsNan] = "fn log_or_nan(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (bits >= 0x7f800000u) {
        if (bits == 0x80000000u) {
            return from_bits(0xff800000u);
        }
        return select(from_bits(0x7fc00000u), x, bits == 0x7f800000u);
    }
    if (bits == 0u) {
        return from_bits(0xff800000u);
    }
    let subnormal = bits < 0x00800000u;
    let scaled = select(bits, bitcast<u32>(f32(bits)), subnormal);
    let offset = i32(scaled) - 0x3f3504f3;
    let exponent = offset >> 23u;
    let f = bitcast<f32>(scaled - (bitcast<u32>(exponent) << 23u)) - 1.0;
    let n = f32(exponent - select(0, 149, subnormal));
    let square = f * f;
    let series = 0.33333313 + f * (-0.2500001 + f * (0.20002119 + f * (-0.16667996 + f * (0.14219552 + f * (-0.12405589 + f * (0.11888163 + f * (-0.11675651 + f * 0.06746638)))))));
    let tail = f * square * series + n * -0.00021219444 - 0.5 * square;
    return (tail + f) + n * 0.693359375;
}
";
        Tanh "tanh_of" [Expm1] = "fn tanh_of(x: f32) -> f32 {
    let e = expm1(2.0 * min(abs(x), 10.0));
    let y = e / (e + 2.0);
    return select(bitcast<f32>(bitcast<u32>(y) | (bitcast<u32>(x) & 0x80000000u)), x, is_nan(x));
}
";
        Sigmoid "sigmoid" [IsNan] = "fn sigmoid(x: f32) -> f32 {
    let e = exp(-abs(x));
    return select(select(1.0, e, x < 0.0) / (1.0 + e), x, is_nan(x));
}
";
        Erf "erf" [] = "fn erf(x: f32) -> f32 {
    let magnitude = abs(x);
    let s = x * x;
    let near = x + x * (0.12837917 + s * (-0.37612635 + s * (0.11283697 + s * (-0.0268595 + s * (0.005201286 + s * (-0.00081455975 + s * 8.382391e-5))))));
    let m = min(magnitude, 4.0);
    let far = 1.0 - exp(-0.00019567493 + m * (-1.1276757 + m * (-0.63718224 + m * (-0.1039316 + m * (0.022226922 + m * (-0.003043218 + m * 0.0001959373))))));
    return select(select(far, -far, x < 0.0), near, !(magnitude >= 0.92));
}
";
        Pow "power" [FromBits IsNan] = POW;
        // Binary long division, in which each subtraction is exact.
        Rem "remainder" [FromBits] = "fn remainder(x: f32, y: f32) -> f32 {
    var left = abs(x);
    let divisor = abs(y);
    if (!(divisor > 0.0) || bitcast<u32>(left) >= 0x7f800000u || bitcast<u32>(divisor) > 0x7f800000u) {
        return from_bits(0x7fc00000u);
    }
    if (bitcast<u32>(divisor) == 0x7f800000u) {
        return x;
    }
    var exponent = i32(bitcast<u32>(left) >> 23u) - i32(bitcast<u32>(divisor) >> 23u);
    while (exponent >= 0) {
        let multiple = ldexp(divisor, exponent);
        if (left >= multiple) {
            left = left - multiple;
        }
        exponent = exponent - 1;
    }
    if (left >= divisor) {
        left = left - divisor;
    }
    return bitcast<f32>(bitcast<u32>(left) | (bitcast<u32>(x) & 0x80000000u));
}
";
        ReduceAngle "reduce_angle" [MulHigh] = REDUCE_ANGLE;
        SinWithPhase "sin_with_phase" [FromBits ReduceAngle] = SIN_WITH_PHASE;
        Sin "sin_of" [SinWithPhase] = "fn sin_of(x: f32) -> f32 {\n    return sin_with_phase(x, 0);\n}\n";
        Cos "cos_of" [SinWithPhase] = "fn cos_of(x: f32) -> f32 {\n    return sin_with_phase(x, 1);\n}\n";
        ToI32 "to_i32" [IsNan] = "fn to_i32(x: f32) -> i32 {
    let inside = i32(clamp(x, -2147483648.0, 2147483520.0));
    return select(select(inside, 2147483647, x >= 2147483648.0), 0, is_nan(x));
}
";
        ToU32 "to_u32" [IsNan] = "fn to_u32(x: f32) -> u32 {
    let inside = u32(clamp(x, 0.0, 4294967040.0));
    return select(select(inside, 0xffffffffu, x >= 4294967296.0), 0u, is_nan(x));
}
";
        // Computes the upper 32 bits of a product from products of 16-bit halves.
        MulHigh "mul_high" [] = "fn mul_high(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let right = (a & 0xffffu) * (b >> 16u) + (left & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u);
}
";
    }
}

const POW: &str = "fn power(x: f32, y: f32) -> f32 {
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (is_nan(x) || is_nan(y)) {
        return from_bits(0x7fc00000u);
    }
    let magnitude = abs(x);
    let whole = floor(y) == y;
    let odd = whole && abs(y) < 16777216.0 && (i32(abs(y)) & 1) == 1;
    let negative = (bitcast<u32>(x) & 0x80000000u) != 0u;
    var result: f32;
    if (magnitude == 0.0 || bitcast<u32>(magnitude) == 0x7f800000u) {
        result = select(0.0, from_bits(0x7f800000u), (magnitude == 0.0) == (y < 0.0));
    } else if (bitcast<u32>(abs(y)) == 0x7f800000u) {
        result = select(select(0.0, from_bits(0x7f800000u), (magnitude > 1.0) == (y > 0.0)), 1.0, magnitude == 1.0);
        return result;
    } else {
        if (negative && !whole) {
            return from_bits(0x7fc00000u);
        }
        let bits = bitcast<u32>(magnitude);
        let subnormal = bits < 0x00800000u;
        let scaled = select(bits, bitcast<u32>(f32(bits)), subnormal);
        let offset = i32(scaled) - 0x3f3504f3;
        let exponent = offset >> 23u;
        let f = bitcast<f32>(scaled - (bitcast<u32>(exponent) << 23u)) - 1.0;
        let n = f32(exponent - select(0, 149, subnormal));
        // log(1 + f) as 2 atanh(f / (2 + f)), its leading part with the rounding error of the quotient.
        let d = 2.0 + f;
        let s = f / d;
        let rest = fma(-s, d, f) / d;
        let q = s * s;
        let tail = 2.0 * s * q * (0.33333334 + q * (0.2 + q * (0.14285715 + q * (0.11111111 + q * 0.09090909)))) + 2.0 * rest;
        let head = 2.0 * s;
        // In units of the logarithm of two, in two parts.
        let high = head * 1.4426950;
        let low = fma(head, 1.4426950, -high) + head * 1.9259630e-8 + tail * 1.4426950;
        let sum = n + high;
        let lost = high - (sum - n);
        let product = y * sum;
        // Beyond these, every result is infinite or 0; up to them, half of the exponent is that of a float.
        if (product > 129.0 || product < -160.0) {
            result = select(0.0, from_bits(0x7f800000u), product > 0.0);
        } else {
            let error = fma(y, sum, -product) + y * (lost + low);
            let integer = round(product);
            let fraction = (product - integer) + error;
            let value = exp2(fraction);
            let half = i32(integer) / 2;
            let first = bitcast<f32>(bitcast<u32>(half + 127) << 23u);
            let second = bitcast<f32>(bitcast<u32>(i32(integer) - half + 127) << 23u);
            result = value * first * second;
        }
    }
    return select(result, -result, negative && odd);
}
";

/// Subtracts the nearest multiple of pi/2 from an angle of at least 8,192; returns the difference, and that
/// multiple modulo 4 as f32.
///
/// Payne and Hanek, "Radian reduction for trigonometric functions", 1983: x is an integer times 2^k. The
/// leading bits of 2/pi, whose products with x are multiples of 4, are skipped. 96 bits remain, from the
/// (k-1)-th on. The table begins with 32 zero bits, so that k may be small.
const REDUCE_ANGLE: &str = "fn reduce_angle(x: f32) -> vec2<f32> {
    var two_over_pi = array<u32, 8>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    let bits = bitcast<u32>(x);
    let start = ((bits >> 23u) & 0xffu) - 120u;
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    let word = start >> 5u;
    let shift = start & 31u;
    var w = array<u32, 3>();
    for (var i = 0u; i < 3u; i += 1u) {
        let next = select(two_over_pi[word + i + 1u] >> (32u - max(shift, 1u)), 0u, shift == 0u);
        w[i] = (two_over_pi[word + i] << shift) | next;
    }
    let middle = mantissa * w[1];
    let low = middle + mul_high(mantissa, w[2]);
    let high = mantissa * w[0] + mul_high(mantissa, w[1]) + u32(low < middle);
    // Two bits of quadrant, then a fraction of pi/2, rounded to the nearest quadrant.
    var fraction = vec2((high << 2u) | (low >> 30u), low << 2u);
    let up = fraction.x >> 31u;
    if (up == 1u) {
        fraction = vec2(~fraction.x + u32(fraction.y == 0u), 0u - fraction.y);
    }
    let size = (f32(fraction.x) + f32(fraction.y) * 2.3283064e-10) * 3.6572951e-10;
    let turns = f32((high >> 30u) + up);
    return select(vec2(-size, turns), vec2(size, turns), up == 0u) * select(1.0, -1.0, bits >= 0x80000000u);
}
";

/// Computes sin(x + quarters·pi/2). WGSL's built-in functions are not used, because they may have an error of
/// 2^-11. The angle is reduced by pi/2 in three parts or, if it is large, with many bits. Reduction in parts
/// and polynomials follow Moshier, "Methods and Programs for Mathematical Functions" (1989), chapter 5. The
/// absolute error is below 2e-7 for every finite x.
const SIN_WITH_PHASE: &str = "fn sin_with_phase(x: f32, quarters: i32) -> f32 {
    if ((bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u) {
        return from_bits(0x7fc00000u);
    }
    var n = round(x * 0.63661977);
    var r = ((x - n * 1.5703125) - n * 0.00048375129699707031) - n * 7.5497899487686474e-8;
    if (abs(x) >= 8192.0) {
        let reduced = reduce_angle(x);
        r = reduced.x;
        n = reduced.y;
    }
    let s = r * r;
    let quadrant = i32(n) + quarters;
    let odd = 1.0 - 0.5 * s + s * s * (0.041666645683 + s * (-0.0013887316255 + s * 0.000024433157118));
    let even = r + r * s * (-0.16666654611 + s * (0.0083321608736 + s * -0.00019515295891));
    let y = select(even, odd, (quadrant & 1) != 0);
    return select(y, -y, (quadrant & 2) != 0);
}
";
