// A causal mask, and two heads of queries for each of keys.
// graph {
//   %0: f32[1, 2, 6, 4] = input "q"
//   %1: f32[1, 1, 6, 4] = input "k"
//   %2: f32[1, 1, 6, 4] = input "v"
//   %3: i32[] = input "offset"
//   %4: i32[] = input "length"
//   %5: f32[1, 2, 6, 4], %6: f32[1, 2, 6] = attention %0, %1, %2 {scale=0.25, causal}
//   output "o" %5
// }

// [1, 1, 1] workgroups
// attention
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
@group(0) @binding(4) var<storage, read_write> b4: array<f32>;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn from_bits(bits: u32) -> f32 {
    var hidden = bits;
    return bitcast<f32>(hidden);
}
fn exp_or_nan(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v5 = ((group * 64u) + local);
    let v7 = (v5 % 6u);
    let v11 = (v5 / 6u);
    let v20 = (v11 % 2u);
    let v22 = min(v7, 5u);
    if (((v11 / 2u) < 1u)) {
        let v43 = ((v20 * 24u) + (v22 * 4u));
        let v47 = b0[v43];
        let v52 = b0[(v43 + 1u)];
        let v57 = b0[(v43 + 2u)];
        let v62 = b0[(v43 + 3u)];
        var x0 = 0.0f;
        var x1 = 0.0f;
        var x2 = 0.0f;
        var x3 = 0.0f;
        var x4 = (-3e38f);
        var x5 = 0.0f;
        for (var i0 = 0u; i0 < min(((v5 % 6u) + 1u), 6u); i0 += 1u) {
            let v77 = (i0 * 4u);
            let v80 = (i0 * 4u);
            var x6 = 0.0f;
            let v85 = b1[v77];
            x6 = (x6 + (v47 * v85));
            let v93 = b1[(v77 + 1u)];
            x6 = (x6 + (v52 * v93));
            let v101 = b1[(v77 + 2u)];
            x6 = (x6 + (v57 * v101));
            let v109 = b1[(v77 + 3u)];
            x6 = (x6 + (v62 * v109));
            let v115 = (x6 * 0.25f);
            let v116 = x4;
            let v117 = max(v116, v115);
            let v119 = exp_or_nan((v116 - v117));
            x4 = v117;
            let v121 = exp_or_nan((v115 - v117));
            x5 = ((x5 * v119) + v121);
            let v127 = b2[v80];
            x0 = ((x0 * v119) + (v121 * v127));
            let v136 = b2[(v80 + 1u)];
            x1 = ((x1 * v119) + (v121 * v136));
            let v145 = b2[(v80 + 2u)];
            x2 = ((x2 * v119) + (v121 * v145));
            let v154 = b2[(v80 + 3u)];
            x3 = ((x3 * v119) + (v121 * v154));
        }
        if ((v7 < 6u)) {
            let v162 = (0u < min((v22 + 1u), 6u));
            let v163 = x5;
            let v167 = select(0.0f, (1.0f / v163), v162);
            let v173 = ((v20 * 24u) + (v7 * 4u));
            b3[v173] = (x0 * v167);
            b3[(v173 + 1u)] = (x1 * v167);
            b3[(v173 + 2u)] = (x2 * v167);
            b3[(v173 + 3u)] = (x3 * v167);
            b4[((v20 * 6u) + v7)] = select(from_bits(0xff800000u), (x4 + log(v163)), v162);
        }
    }
}
