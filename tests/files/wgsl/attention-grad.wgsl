// The gradient of queries row by row, then that of keys and values; sums have a fixed order.
// graph {
//   %0: f32[1, 1, 6, 4] = input "q"
//   %1: f32[1, 1, 6, 4] = input "k"
//   %2: f32[1, 1, 6, 4] = input "v"
//   %3: f32[1, 1, 6, 4] = input "o"
//   %4: f32[1, 1, 6] = input "s"
//   %5: f32[1, 1, 6, 4] = input "g"
//   %6: f32[1, 1, 6, 4], %7: f32[1, 1, 6, 4], %8: f32[1, 1, 6, 4] = attention_grad %0, %1, %2, %3, %4, %5 {scale=0.5}
//   output "dq" %6
//   output "dk" %7
//   output "dv" %8
// }

// [1, 1, 1] workgroups
// attention_grad: queries
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
@group(0) @binding(4) var<storage, read_write> b4: array<f32>;
@group(0) @binding(5) var<storage, read_write> b5: array<f32>;
@group(0) @binding(6) var<storage, read_write> b6: array<f32>;
@group(0) @binding(7) var<storage, read_write> w0: array<f32>;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn exp_or_nan(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 64u) + local);
    let v6 = (v4 % 6u);
    let v10 = (v4 / 6u);
    let v20 = min(v6, 5u);
    if ((v10 < 1u)) {
        let v27 = (v20 * 4u);
        let v31 = b0[v27];
        let v36 = b0[(v27 + 1u)];
        let v41 = b0[(v27 + 2u)];
        let v46 = b0[(v27 + 3u)];
        let v49 = (v20 * 4u);
        let v53 = b5[v49];
        let v58 = b5[(v49 + 1u)];
        let v63 = b5[(v49 + 2u)];
        let v68 = b5[(v49 + 3u)];
        let v71 = (v20 * 4u);
        var x0 = 0.0f;
        for (var i0 = 0u; i0 < 4u; i0 += 1u) {
            let v80 = b5[(v49 + i0)];
            let v83 = b3[(v71 + i0)];
            x0 = (x0 + (v80 * v83));
        }
        let v86 = x0;
        var x1 = 0.0f;
        var x2 = 0.0f;
        var x3 = 0.0f;
        var x4 = 0.0f;
        if ((v6 < 6u)) {
            w0[((v10 * 6u) + v6)] = v86;
        }
        let v103 = b4[v20];
        for (var i1 = 0u; i1 < 6u; i1 += 1u) {
            let v108 = (i1 * 4u);
            let v111 = (i1 * 4u);
            var x5 = 0.0f;
            let v116 = b1[v108];
            x5 = (x5 + (v31 * v116));
            let v124 = b1[(v108 + 1u)];
            x5 = (x5 + (v36 * v124));
            let v132 = b1[(v108 + 2u)];
            x5 = (x5 + (v41 * v132));
            let v140 = b1[(v108 + 3u)];
            x5 = (x5 + (v46 * v140));
            let v144 = x5;
            var x6 = 0.0f;
            let v149 = b2[v111];
            x6 = (x6 + (v53 * v149));
            let v157 = b2[(v111 + 1u)];
            x6 = (x6 + (v58 * v157));
            let v165 = b2[(v111 + 2u)];
            x6 = (x6 + (v63 * v165));
            let v173 = b2[(v111 + 3u)];
            x6 = (x6 + (v68 * v173));
            let v185 = ((exp_or_nan(((v144 * 0.5f) - v103)) * (x6 - v86)) * 0.5f);
            x1 = (x1 + (v185 * v116));
            x2 = (x2 + (v185 * v124));
            x3 = (x3 + (v185 * v132));
            x4 = (x4 + (v185 * v140));
        }
        if ((v6 < 6u)) {
            let v202 = (v6 * 4u);
            b6[v202] = x1;
            b6[(v202 + 1u)] = x2;
            b6[(v202 + 2u)] = x3;
            b6[(v202 + 3u)] = x4;
        }
    }
}

// [1, 1, 1] workgroups
// attention_grad: keys
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b4: array<f32>;
@group(0) @binding(4) var<storage, read_write> b5: array<f32>;
@group(0) @binding(5) var<storage, read_write> b7: array<f32>;
@group(0) @binding(6) var<storage, read_write> b8: array<f32>;
@group(0) @binding(7) var<storage, read_write> w0: array<f32>;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn exp_or_nan(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 64u) + local);
    let v6 = (v4 % 6u);
    let v10 = (v4 / 6u);
    let v20 = min(v6, 5u);
    if ((v10 < 1u)) {
        let v24 = (v20 * 4u);
        let v28 = b1[v24];
        let v33 = b1[(v24 + 1u)];
        let v38 = b1[(v24 + 2u)];
        let v43 = b1[(v24 + 3u)];
        let v46 = (v20 * 4u);
        let v50 = b2[v46];
        let v55 = b2[(v46 + 1u)];
        let v60 = b2[(v46 + 2u)];
        let v65 = b2[(v46 + 3u)];
        var x0 = 0.0f;
        var x1 = 0.0f;
        var x2 = 0.0f;
        var x3 = 0.0f;
        var x4 = 0.0f;
        var x5 = 0.0f;
        var x6 = 0.0f;
        var x7 = 0.0f;
        let v85 = select(0u, 6u, (v20 >= 6u));
        let v89 = select(0u, 6u, (v6 >= 6u));
        for (var i0 = 0u; i0 < 1u; i0 += 1u) {
            for (var i1 = v89; i1 < 6u; i1 += 1u) {
                let v103 = (i1 * 4u);
                let v106 = (i1 * 4u);
                let v109 = b4[i1];
                let v115 = w0[(((v10 + i0) * 6u) + i1)];
                var x8 = 0.0f;
                let v120 = b0[v103];
                x8 = (x8 + (v28 * v120));
                let v128 = b0[(v103 + 1u)];
                x8 = (x8 + (v33 * v128));
                let v136 = b0[(v103 + 2u)];
                x8 = (x8 + (v38 * v136));
                let v144 = b0[(v103 + 3u)];
                x8 = (x8 + (v43 * v144));
                let v148 = x8;
                var x9 = 0.0f;
                let v153 = b5[v106];
                x9 = (x9 + (v50 * v153));
                let v161 = b5[(v106 + 1u)];
                x9 = (x9 + (v55 * v161));
                let v169 = b5[(v106 + 2u)];
                x9 = (x9 + (v60 * v169));
                let v177 = b5[(v106 + 3u)];
                x9 = (x9 + (v65 * v177));
                let v182 = (i1 >= v85);
                let v188 = select(0.0f, exp_or_nan(((v148 * 0.5f) - v109)), v182);
                let v194 = select(0.0f, ((v188 * (x9 - v115)) * 0.5f), v182);
                x4 = (x4 + (v188 * v153));
                x5 = (x5 + (v188 * v161));
                x6 = (x6 + (v188 * v169));
                x7 = (x7 + (v188 * v177));
                x0 = (x0 + (v194 * v120));
                x1 = (x1 + (v194 * v128));
                x2 = (x2 + (v194 * v136));
                x3 = (x3 + (v194 * v144));
            }
        }
        if ((v6 < 6u)) {
            let v223 = (v6 * 4u);
            b7[v223] = x0;
            b7[(v223 + 1u)] = x1;
            b7[(v223 + 2u)] = x2;
            b7[(v223 + 3u)] = x3;
            let v241 = (v6 * 4u);
            b8[v241] = x4;
            b8[(v241 + 1u)] = x5;
            b8[(v241 + 2u)] = x6;
            b8[(v241 + 3u)] = x7;
        }
    }
}
