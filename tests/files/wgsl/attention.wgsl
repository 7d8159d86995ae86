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
        let v44 = ((v20 * 24u) + (v22 * 4u));
        let v48 = b0[v44];
        let v53 = b0[(v44 + 1u)];
        let v58 = b0[(v44 + 2u)];
        let v63 = b0[(v44 + 3u)];
        var x0 = 0.0f;
        var x1 = 0.0f;
        var x2 = 0.0f;
        var x3 = 0.0f;
        var x4 = (-3e38f);
        var x5 = 0.0f;
        for (var i0 = 0u; i0 < min(((v5 % 6u) + 1u), 6u); i0 += 1u) {
            let v78 = (i0 * 4u);
            let v81 = (i0 * 4u);
            var x6 = 0.0f;
            let v86 = b1[v78];
            x6 = (x6 + (v48 * v86));
            let v94 = b1[(v78 + 1u)];
            x6 = (x6 + (v53 * v94));
            let v102 = b1[(v78 + 2u)];
            x6 = (x6 + (v58 * v102));
            let v110 = b1[(v78 + 3u)];
            x6 = (x6 + (v63 * v110));
            let v116 = (x6 * 0.25f);
            let v117 = x4;
            let v118 = max(v117, v116);
            let v120 = exp_or_nan((v117 - v118));
            x4 = v118;
            let v122 = exp_or_nan((v116 - v118));
            x5 = ((x5 * v120) + v122);
            let v128 = b2[v81];
            x0 = ((x0 * v120) + (v122 * v128));
            let v137 = b2[(v81 + 1u)];
            x1 = ((x1 * v120) + (v122 * v137));
            let v146 = b2[(v81 + 2u)];
            x2 = ((x2 * v120) + (v122 * v146));
            let v155 = b2[(v81 + 3u)];
            x3 = ((x3 * v120) + (v122 * v155));
        }
        if ((v7 < 6u)) {
            let v164 = (0u < min((v22 + 1u), 6u));
            let v165 = x5;
            let v169 = select(0.0f, (1.0f / v165), v164);
            let v175 = ((v20 * 24u) + (v7 * 4u));
            b3[v175] = (x0 * v169);
            b3[(v175 + 1u)] = (x1 * v169);
            b3[(v175 + 2u)] = (x2 * v169);
            b3[(v175 + 3u)] = (x3 * v169);
            b4[((v20 * 6u) + v7)] = select(from_bits(0xff800000u), (x4 + log(v165)), v164);
        }
    }
}
