// f32: each invocation has a tile of sums in registers.
// graph {
//   %0: f32[10, 24] = input "x"
//   %1: f32[24, 20] = param "w"
//   %2: f32[10, 20] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
//   output "y" %2
// }

// [1, 1, 1] workgroups
// dot
@group(0) @binding(0) var<storage, read_write> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
var<workgroup> a0: array<vec4<f32>, 288>;
var<workgroup> a1: array<vec4<f32>, 256>;
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v7 = (group * 32u);
    let v14 = (local / 8u);
    let v16 = (local % 8u);
    let v20 = (local % 8u);
    let v22 = (local / 8u);
    let v24 = (v20 * 4u);
    let v34 = (v7 + v22);
    let v37 = (((((v22 % 2u) * 16u) + (v22 / 2u)) * 9u) + v20);
    var x0 = vec4<f32>(0.0f);
    let v40 = (local + 128u);
    let v42 = (v40 % 8u);
    let v44 = (v40 / 8u);
    let v46 = (v42 * 4u);
    let v56 = (v7 + v44);
    let v59 = (((((v44 % 2u) * 16u) + (v44 / 2u)) * 9u) + v42);
    var x1 = vec4<f32>(0.0f);
    let v63 = (local % 8u);
    let v65 = (local / 8u);
    let v67 = (v63 * 4u);
    let v72 = ((v65 * 8u) + v63);
    var x2 = vec4<f32>(0.0f);
    let v75 = (local + 128u);
    let v77 = (v75 % 8u);
    let v79 = (v75 / 8u);
    let v81 = (v77 * 4u);
    let v86 = ((v79 * 8u) + v77);
    var x3 = vec4<f32>(0.0f);
    var x4 = vec4<f32>(0.0f);
    var x5 = vec4<f32>(0.0f);
    let v107 = b0[(((min(v34, 9u) * 24u) + min(v24, 20u)) / 4u)];
    x0 = select(vec4<f32>(0.0f), v107, (v24 < 24u));
    let v126 = b0[(((min(v56, 9u) * 24u) + min(v46, 20u)) / 4u)];
    x1 = select(vec4<f32>(0.0f), v126, (v46 < 24u));
    let v145 = b1[((min(v67, 16u) + (min(v65, 23u) * 20u)) / 4u)];
    x2 = select(vec4<f32>(0.0f), v145, (v65 < 24u));
    let v164 = b1[((min(v81, 16u) + (min(v79, 23u) * 20u)) / 4u)];
    x3 = select(vec4<f32>(0.0f), v164, (v79 < 24u));
    for (var i0 = 0u; i0 < 24u; i0 += 32u) {
        a0[v37] = x0;
        a0[v59] = x1;
        a1[v72] = x2;
        a1[v86] = x3;
        workgroupBarrier();
        let v178 = (i0 + 32u);
        if ((v178 < 24u)) {
            let v195 = b0[(((min(v34, 9u) * 24u) + min((v178 + v24), 20u)) / 4u)];
            x0 = select(vec4<f32>(0.0f), v195, ((v178 + v24) < 24u));
            let v216 = b0[(((min(v56, 9u) * 24u) + min((v178 + v46), 20u)) / 4u)];
            x1 = select(vec4<f32>(0.0f), v216, ((v178 + v46) < 24u));
            let v237 = b1[((min(v67, 16u) + (min((v178 + v65), 23u) * 20u)) / 4u)];
            x2 = select(vec4<f32>(0.0f), v237, ((v178 + v65) < 24u));
            let v258 = b1[((min(v81, 16u) + (min((v178 + v79), 23u) * 20u)) / 4u)];
            x3 = select(vec4<f32>(0.0f), v258, ((v178 + v79) < 24u));
        }
        let v271 = a0[(v14 * 9u)];
        let v277 = a0[((v14 + 16u) * 9u)];
        let v286 = a1[v16];
        let v296 = a1[(8u + v16)];
        let v306 = a1[(16u + v16)];
        let v316 = a1[(24u + v16)];
        x4 = fma(vec4<f32>(v271.x), v286, x4);
        x5 = fma(vec4<f32>(v277.x), v286, x5);
        x4 = fma(vec4<f32>(v271.y), v296, x4);
        x5 = fma(vec4<f32>(v277.y), v296, x5);
        x4 = fma(vec4<f32>(v271.z), v306, x4);
        x5 = fma(vec4<f32>(v277.z), v306, x5);
        x4 = fma(vec4<f32>(v271.w), v316, x4);
        x5 = fma(vec4<f32>(v277.w), v316, x5);
        let v355 = a0[((v14 * 9u) + 1u)];
        let v362 = a0[(((v14 + 16u) * 9u) + 1u)];
        let v372 = a1[(32u + v16)];
        let v382 = a1[(40u + v16)];
        let v392 = a1[(48u + v16)];
        let v402 = a1[(56u + v16)];
        x4 = fma(vec4<f32>(v355.x), v372, x4);
        x5 = fma(vec4<f32>(v362.x), v372, x5);
        x4 = fma(vec4<f32>(v355.y), v382, x4);
        x5 = fma(vec4<f32>(v362.y), v382, x5);
        x4 = fma(vec4<f32>(v355.z), v392, x4);
        x5 = fma(vec4<f32>(v362.z), v392, x5);
        x4 = fma(vec4<f32>(v355.w), v402, x4);
        x5 = fma(vec4<f32>(v362.w), v402, x5);
        let v441 = a0[((v14 * 9u) + 2u)];
        let v448 = a0[(((v14 + 16u) * 9u) + 2u)];
        let v458 = a1[(64u + v16)];
        let v468 = a1[(72u + v16)];
        let v478 = a1[(80u + v16)];
        let v488 = a1[(88u + v16)];
        x4 = fma(vec4<f32>(v441.x), v458, x4);
        x5 = fma(vec4<f32>(v448.x), v458, x5);
        x4 = fma(vec4<f32>(v441.y), v468, x4);
        x5 = fma(vec4<f32>(v448.y), v468, x5);
        x4 = fma(vec4<f32>(v441.z), v478, x4);
        x5 = fma(vec4<f32>(v448.z), v478, x5);
        x4 = fma(vec4<f32>(v441.w), v488, x4);
        x5 = fma(vec4<f32>(v448.w), v488, x5);
        let v527 = a0[((v14 * 9u) + 3u)];
        let v534 = a0[(((v14 + 16u) * 9u) + 3u)];
        let v544 = a1[(96u + v16)];
        let v554 = a1[(104u + v16)];
        let v564 = a1[(112u + v16)];
        let v574 = a1[(120u + v16)];
        x4 = fma(vec4<f32>(v527.x), v544, x4);
        x5 = fma(vec4<f32>(v534.x), v544, x5);
        x4 = fma(vec4<f32>(v527.y), v554, x4);
        x5 = fma(vec4<f32>(v534.y), v554, x5);
        x4 = fma(vec4<f32>(v527.z), v564, x4);
        x5 = fma(vec4<f32>(v534.z), v564, x5);
        x4 = fma(vec4<f32>(v527.w), v574, x4);
        x5 = fma(vec4<f32>(v534.w), v574, x5);
        let v613 = a0[((v14 * 9u) + 4u)];
        let v620 = a0[(((v14 + 16u) * 9u) + 4u)];
        let v630 = a1[(128u + v16)];
        let v640 = a1[(136u + v16)];
        let v650 = a1[(144u + v16)];
        let v660 = a1[(152u + v16)];
        x4 = fma(vec4<f32>(v613.x), v630, x4);
        x5 = fma(vec4<f32>(v620.x), v630, x5);
        x4 = fma(vec4<f32>(v613.y), v640, x4);
        x5 = fma(vec4<f32>(v620.y), v640, x5);
        x4 = fma(vec4<f32>(v613.z), v650, x4);
        x5 = fma(vec4<f32>(v620.z), v650, x5);
        x4 = fma(vec4<f32>(v613.w), v660, x4);
        x5 = fma(vec4<f32>(v620.w), v660, x5);
        let v699 = a0[((v14 * 9u) + 5u)];
        let v706 = a0[(((v14 + 16u) * 9u) + 5u)];
        let v716 = a1[(160u + v16)];
        let v726 = a1[(168u + v16)];
        let v736 = a1[(176u + v16)];
        let v746 = a1[(184u + v16)];
        x4 = fma(vec4<f32>(v699.x), v716, x4);
        x5 = fma(vec4<f32>(v706.x), v716, x5);
        x4 = fma(vec4<f32>(v699.y), v726, x4);
        x5 = fma(vec4<f32>(v706.y), v726, x5);
        x4 = fma(vec4<f32>(v699.z), v736, x4);
        x5 = fma(vec4<f32>(v706.z), v736, x5);
        x4 = fma(vec4<f32>(v699.w), v746, x4);
        x5 = fma(vec4<f32>(v706.w), v746, x5);
        let v785 = a0[((v14 * 9u) + 6u)];
        let v792 = a0[(((v14 + 16u) * 9u) + 6u)];
        let v802 = a1[(192u + v16)];
        let v812 = a1[(200u + v16)];
        let v822 = a1[(208u + v16)];
        let v832 = a1[(216u + v16)];
        x4 = fma(vec4<f32>(v785.x), v802, x4);
        x5 = fma(vec4<f32>(v792.x), v802, x5);
        x4 = fma(vec4<f32>(v785.y), v812, x4);
        x5 = fma(vec4<f32>(v792.y), v812, x5);
        x4 = fma(vec4<f32>(v785.z), v822, x4);
        x5 = fma(vec4<f32>(v792.z), v822, x5);
        x4 = fma(vec4<f32>(v785.w), v832, x4);
        x5 = fma(vec4<f32>(v792.w), v832, x5);
        let v871 = a0[((v14 * 9u) + 7u)];
        let v878 = a0[(((v14 + 16u) * 9u) + 7u)];
        let v888 = a1[(224u + v16)];
        let v898 = a1[(232u + v16)];
        let v908 = a1[(240u + v16)];
        let v918 = a1[(248u + v16)];
        x4 = fma(vec4<f32>(v871.x), v888, x4);
        x5 = fma(vec4<f32>(v878.x), v888, x5);
        x4 = fma(vec4<f32>(v871.y), v898, x4);
        x5 = fma(vec4<f32>(v878.y), v898, x5);
        x4 = fma(vec4<f32>(v871.z), v908, x4);
        x5 = fma(vec4<f32>(v878.z), v908, x5);
        x4 = fma(vec4<f32>(v871.w), v918, x4);
        x5 = fma(vec4<f32>(v878.w), v918, x5);
        workgroupBarrier();
    }
    let v954 = (v7 + (v14 * 2u));
    if ((v954 < 10u)) {
        let v958 = x4;
        let v961 = (v16 * 4u);
        if ((v961 < 20u)) {
            b2[((v954 * 20u) + v961)] = v958.x;
        }
        let v978 = ((v16 * 4u) + 1u);
        if ((v978 < 20u)) {
            b2[((v954 * 20u) + v978)] = v958.y;
        }
        let v994 = ((v16 * 4u) + 2u);
        if ((v994 < 20u)) {
            b2[((v954 * 20u) + v994)] = v958.z;
        }
        let v1010 = ((v16 * 4u) + 3u);
        if ((v1010 < 20u)) {
            b2[((v954 * 20u) + v1010)] = v958.w;
        }
    }
    let v1027 = ((v7 + (v14 * 2u)) + 1u);
    if ((v1027 < 10u)) {
        let v1030 = x5;
        let v1033 = (v16 * 4u);
        if ((v1033 < 20u)) {
            b2[((v1027 * 20u) + v1033)] = v1030.x;
        }
        let v1050 = ((v16 * 4u) + 1u);
        if ((v1050 < 20u)) {
            b2[((v1027 * 20u) + v1050)] = v1030.y;
        }
        let v1066 = ((v16 * 4u) + 2u);
        if ((v1066 < 20u)) {
            b2[((v1027 * 20u) + v1066)] = v1030.z;
        }
        let v1082 = ((v16 * 4u) + 3u);
        if ((v1082 < 20u)) {
            b2[((v1027 * 20u) + v1082)] = v1030.w;
        }
    }
}
