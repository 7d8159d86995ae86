// [2, 1, 1] workgroups
// dot [70 x 64] with epilogue
enable wgpu_cooperative_matrix;
enable f16;
// 1 products [70, 128] x [128, 64].
@group(0) @binding(0) var<storage, read_write> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
// Tiles of 64 x 64, 32 x 32 a subgroup, in cooperative matrices.
var<workgroup> lhs_tile: array<vec4<f16>, 1152>;
var<workgroup> rhs_tile: array<vec4<f16>, 1152>;
var<workgroup> result_tile: array<f32, 1024>;

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let group = workgroup.x;
    let tile = group;
    let batch = 0u;
    let part = 0u;
    let first_row = (tile / 1u) * 64u;
    let first_column = (tile % 1u) * 64u;
    let lhs_start = 0u;
    let rhs_start = 0u;
    let subgroup_row = (subgroup / 2u) * 32u;
    let subgroup_column = (subgroup % 2u) * 32u;
    var sum_0_0 = coop_mat16x16<f32, C>();
    var sum_0_1 = coop_mat16x16<f32, C>();
    var sum_1_0 = coop_mat16x16<f32, C>();
    var sum_1_1 = coop_mat16x16<f32, C>();
    let first_term = 0u;
    let end_term = 128u;
    let lhs_along_0 = thread % 16u;
    let lhs_other_0 = thread / 16u;
    let lhs_free_0 = first_row + lhs_other_0;
    let lhs_term_0 = lhs_along_0 * 4u;
    let lhs_slot_0 = (lhs_other_0) * 18u + lhs_along_0;
    var lhs_next_0 = vec4<f16>();
    let lhs_along_1 = (thread + 128u) % 16u;
    let lhs_other_1 = (thread + 128u) / 16u;
    let lhs_free_1 = first_row + lhs_other_1;
    let lhs_term_1 = lhs_along_1 * 4u;
    let lhs_slot_1 = (lhs_other_1) * 18u + lhs_along_1;
    var lhs_next_1 = vec4<f16>();
    let lhs_along_2 = (thread + 256u) % 16u;
    let lhs_other_2 = (thread + 256u) / 16u;
    let lhs_free_2 = first_row + lhs_other_2;
    let lhs_term_2 = lhs_along_2 * 4u;
    let lhs_slot_2 = (lhs_other_2) * 18u + lhs_along_2;
    var lhs_next_2 = vec4<f16>();
    let lhs_along_3 = (thread + 384u) % 16u;
    let lhs_other_3 = (thread + 384u) / 16u;
    let lhs_free_3 = first_row + lhs_other_3;
    let lhs_term_3 = lhs_along_3 * 4u;
    let lhs_slot_3 = (lhs_other_3) * 18u + lhs_along_3;
    var lhs_next_3 = vec4<f16>();
    let lhs_along_4 = (thread + 512u) % 16u;
    let lhs_other_4 = (thread + 512u) / 16u;
    let lhs_free_4 = first_row + lhs_other_4;
    let lhs_term_4 = lhs_along_4 * 4u;
    let lhs_slot_4 = (lhs_other_4) * 18u + lhs_along_4;
    var lhs_next_4 = vec4<f16>();
    let lhs_along_5 = (thread + 640u) % 16u;
    let lhs_other_5 = (thread + 640u) / 16u;
    let lhs_free_5 = first_row + lhs_other_5;
    let lhs_term_5 = lhs_along_5 * 4u;
    let lhs_slot_5 = (lhs_other_5) * 18u + lhs_along_5;
    var lhs_next_5 = vec4<f16>();
    let lhs_along_6 = (thread + 768u) % 16u;
    let lhs_other_6 = (thread + 768u) / 16u;
    let lhs_free_6 = first_row + lhs_other_6;
    let lhs_term_6 = lhs_along_6 * 4u;
    let lhs_slot_6 = (lhs_other_6) * 18u + lhs_along_6;
    var lhs_next_6 = vec4<f16>();
    let lhs_along_7 = (thread + 896u) % 16u;
    let lhs_other_7 = (thread + 896u) / 16u;
    let lhs_free_7 = first_row + lhs_other_7;
    let lhs_term_7 = lhs_along_7 * 4u;
    let lhs_slot_7 = (lhs_other_7) * 18u + lhs_along_7;
    var lhs_next_7 = vec4<f16>();
    let rhs_along_0 = thread % 16u;
    let rhs_other_0 = thread / 16u;
    let rhs_free_0 = first_column + rhs_along_0 * 4u;
    let rhs_term_0 = rhs_other_0;
    let rhs_slot_0 = (rhs_other_0) * 18u + rhs_along_0;
    var rhs_next_0 = vec4<f16>();
    let rhs_along_1 = (thread + 128u) % 16u;
    let rhs_other_1 = (thread + 128u) / 16u;
    let rhs_free_1 = first_column + rhs_along_1 * 4u;
    let rhs_term_1 = rhs_other_1;
    let rhs_slot_1 = (rhs_other_1) * 18u + rhs_along_1;
    var rhs_next_1 = vec4<f16>();
    let rhs_along_2 = (thread + 256u) % 16u;
    let rhs_other_2 = (thread + 256u) / 16u;
    let rhs_free_2 = first_column + rhs_along_2 * 4u;
    let rhs_term_2 = rhs_other_2;
    let rhs_slot_2 = (rhs_other_2) * 18u + rhs_along_2;
    var rhs_next_2 = vec4<f16>();
    let rhs_along_3 = (thread + 384u) % 16u;
    let rhs_other_3 = (thread + 384u) / 16u;
    let rhs_free_3 = first_column + rhs_along_3 * 4u;
    let rhs_term_3 = rhs_other_3;
    let rhs_slot_3 = (rhs_other_3) * 18u + rhs_along_3;
    var rhs_next_3 = vec4<f16>();
    let rhs_along_4 = (thread + 512u) % 16u;
    let rhs_other_4 = (thread + 512u) / 16u;
    let rhs_free_4 = first_column + rhs_along_4 * 4u;
    let rhs_term_4 = rhs_other_4;
    let rhs_slot_4 = (rhs_other_4) * 18u + rhs_along_4;
    var rhs_next_4 = vec4<f16>();
    let rhs_along_5 = (thread + 640u) % 16u;
    let rhs_other_5 = (thread + 640u) / 16u;
    let rhs_free_5 = first_column + rhs_along_5 * 4u;
    let rhs_term_5 = rhs_other_5;
    let rhs_slot_5 = (rhs_other_5) * 18u + rhs_along_5;
    var rhs_next_5 = vec4<f16>();
    let rhs_along_6 = (thread + 768u) % 16u;
    let rhs_other_6 = (thread + 768u) / 16u;
    let rhs_free_6 = first_column + rhs_along_6 * 4u;
    let rhs_term_6 = rhs_other_6;
    let rhs_slot_6 = (rhs_other_6) * 18u + rhs_along_6;
    var rhs_next_6 = vec4<f16>();
    let rhs_along_7 = (thread + 896u) % 16u;
    let rhs_other_7 = (thread + 896u) / 16u;
    let rhs_free_7 = first_column + rhs_along_7 * 4u;
    let rhs_term_7 = rhs_other_7;
    let rhs_slot_7 = (rhs_other_7) * 18u + rhs_along_7;
    var rhs_next_7 = vec4<f16>();
    lhs_next_0 = vec4<f16>(b0[(lhs_start + min(lhs_free_0, 69u) * 128u + (first_term + lhs_term_0)) >> 2u]);
    lhs_next_1 = vec4<f16>(b0[(lhs_start + min(lhs_free_1, 69u) * 128u + (first_term + lhs_term_1)) >> 2u]);
    lhs_next_2 = vec4<f16>(b0[(lhs_start + min(lhs_free_2, 69u) * 128u + (first_term + lhs_term_2)) >> 2u]);
    lhs_next_3 = vec4<f16>(b0[(lhs_start + min(lhs_free_3, 69u) * 128u + (first_term + lhs_term_3)) >> 2u]);
    lhs_next_4 = vec4<f16>(b0[(lhs_start + min(lhs_free_4, 69u) * 128u + (first_term + lhs_term_4)) >> 2u]);
    lhs_next_5 = vec4<f16>(b0[(lhs_start + min(lhs_free_5, 69u) * 128u + (first_term + lhs_term_5)) >> 2u]);
    lhs_next_6 = vec4<f16>(b0[(lhs_start + min(lhs_free_6, 69u) * 128u + (first_term + lhs_term_6)) >> 2u]);
    lhs_next_7 = vec4<f16>(b0[(lhs_start + min(lhs_free_7, 69u) * 128u + (first_term + lhs_term_7)) >> 2u]);
    rhs_next_0 = vec4<f16>(b1[(rhs_start + (rhs_free_0) + (first_term + rhs_term_0) * 64u) >> 2u]);
    rhs_next_1 = vec4<f16>(b1[(rhs_start + (rhs_free_1) + (first_term + rhs_term_1) * 64u) >> 2u]);
    rhs_next_2 = vec4<f16>(b1[(rhs_start + (rhs_free_2) + (first_term + rhs_term_2) * 64u) >> 2u]);
    rhs_next_3 = vec4<f16>(b1[(rhs_start + (rhs_free_3) + (first_term + rhs_term_3) * 64u) >> 2u]);
    rhs_next_4 = vec4<f16>(b1[(rhs_start + (rhs_free_4) + (first_term + rhs_term_4) * 64u) >> 2u]);
    rhs_next_5 = vec4<f16>(b1[(rhs_start + (rhs_free_5) + (first_term + rhs_term_5) * 64u) >> 2u]);
    rhs_next_6 = vec4<f16>(b1[(rhs_start + (rhs_free_6) + (first_term + rhs_term_6) * 64u) >> 2u]);
    rhs_next_7 = vec4<f16>(b1[(rhs_start + (rhs_free_7) + (first_term + rhs_term_7) * 64u) >> 2u]);
    for (var term = first_term; term < end_term; term += 64u) {
        lhs_tile[0u + lhs_slot_0] = lhs_next_0;
        lhs_tile[0u + lhs_slot_1] = lhs_next_1;
        lhs_tile[0u + lhs_slot_2] = lhs_next_2;
        lhs_tile[0u + lhs_slot_3] = lhs_next_3;
        lhs_tile[0u + lhs_slot_4] = lhs_next_4;
        lhs_tile[0u + lhs_slot_5] = lhs_next_5;
        lhs_tile[0u + lhs_slot_6] = lhs_next_6;
        lhs_tile[0u + lhs_slot_7] = lhs_next_7;
        rhs_tile[0u + rhs_slot_0] = rhs_next_0;
        rhs_tile[0u + rhs_slot_1] = rhs_next_1;
        rhs_tile[0u + rhs_slot_2] = rhs_next_2;
        rhs_tile[0u + rhs_slot_3] = rhs_next_3;
        rhs_tile[0u + rhs_slot_4] = rhs_next_4;
        rhs_tile[0u + rhs_slot_5] = rhs_next_5;
        rhs_tile[0u + rhs_slot_6] = rhs_next_6;
        rhs_tile[0u + rhs_slot_7] = rhs_next_7;
        workgroupBarrier();
        if (term + 64u < end_term) {
            let next_term = term + 64u;
            lhs_next_0 = vec4<f16>(b0[(lhs_start + min(lhs_free_0, 69u) * 128u + (next_term + lhs_term_0)) >> 2u]);
            lhs_next_1 = vec4<f16>(b0[(lhs_start + min(lhs_free_1, 69u) * 128u + (next_term + lhs_term_1)) >> 2u]);
            lhs_next_2 = vec4<f16>(b0[(lhs_start + min(lhs_free_2, 69u) * 128u + (next_term + lhs_term_2)) >> 2u]);
            lhs_next_3 = vec4<f16>(b0[(lhs_start + min(lhs_free_3, 69u) * 128u + (next_term + lhs_term_3)) >> 2u]);
            lhs_next_4 = vec4<f16>(b0[(lhs_start + min(lhs_free_4, 69u) * 128u + (next_term + lhs_term_4)) >> 2u]);
            lhs_next_5 = vec4<f16>(b0[(lhs_start + min(lhs_free_5, 69u) * 128u + (next_term + lhs_term_5)) >> 2u]);
            lhs_next_6 = vec4<f16>(b0[(lhs_start + min(lhs_free_6, 69u) * 128u + (next_term + lhs_term_6)) >> 2u]);
            lhs_next_7 = vec4<f16>(b0[(lhs_start + min(lhs_free_7, 69u) * 128u + (next_term + lhs_term_7)) >> 2u]);
            rhs_next_0 = vec4<f16>(b1[(rhs_start + (rhs_free_0) + (next_term + rhs_term_0) * 64u) >> 2u]);
            rhs_next_1 = vec4<f16>(b1[(rhs_start + (rhs_free_1) + (next_term + rhs_term_1) * 64u) >> 2u]);
            rhs_next_2 = vec4<f16>(b1[(rhs_start + (rhs_free_2) + (next_term + rhs_term_2) * 64u) >> 2u]);
            rhs_next_3 = vec4<f16>(b1[(rhs_start + (rhs_free_3) + (next_term + rhs_term_3) * 64u) >> 2u]);
            rhs_next_4 = vec4<f16>(b1[(rhs_start + (rhs_free_4) + (next_term + rhs_term_4) * 64u) >> 2u]);
            rhs_next_5 = vec4<f16>(b1[(rhs_start + (rhs_free_5) + (next_term + rhs_term_5) * 64u) >> 2u]);
            rhs_next_6 = vec4<f16>(b1[(rhs_start + (rhs_free_6) + (next_term + rhs_term_6) * 64u) >> 2u]);
            rhs_next_7 = vec4<f16>(b1[(rhs_start + (rhs_free_7) + (next_term + rhs_term_7) * 64u) >> 2u]);
        }
        let lhs_buffer = 0u;
        let rhs_buffer = 0u;
         {
            let lhs_0 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 0u) * 18u + 0u], 18u);
            let lhs_1 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 16u) * 18u + 0u], 18u);
            let rhs_0 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 0u + (subgroup_column + 0u) / 4u], 18u);
            sum_0_0 = coopMultiplyAdd(lhs_0, rhs_0, sum_0_0);
            sum_1_0 = coopMultiplyAdd(lhs_1, rhs_0, sum_1_0);
            let rhs_1 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 0u + (subgroup_column + 16u) / 4u], 18u);
            sum_0_1 = coopMultiplyAdd(lhs_0, rhs_1, sum_0_1);
            sum_1_1 = coopMultiplyAdd(lhs_1, rhs_1, sum_1_1);
        }
         {
            let lhs_0 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 0u) * 18u + 4u], 18u);
            let lhs_1 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 16u) * 18u + 4u], 18u);
            let rhs_0 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 288u + (subgroup_column + 0u) / 4u], 18u);
            sum_0_0 = coopMultiplyAdd(lhs_0, rhs_0, sum_0_0);
            sum_1_0 = coopMultiplyAdd(lhs_1, rhs_0, sum_1_0);
            let rhs_1 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 288u + (subgroup_column + 16u) / 4u], 18u);
            sum_0_1 = coopMultiplyAdd(lhs_0, rhs_1, sum_0_1);
            sum_1_1 = coopMultiplyAdd(lhs_1, rhs_1, sum_1_1);
        }
         {
            let lhs_0 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 0u) * 18u + 8u], 18u);
            let lhs_1 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 16u) * 18u + 8u], 18u);
            let rhs_0 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 576u + (subgroup_column + 0u) / 4u], 18u);
            sum_0_0 = coopMultiplyAdd(lhs_0, rhs_0, sum_0_0);
            sum_1_0 = coopMultiplyAdd(lhs_1, rhs_0, sum_1_0);
            let rhs_1 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 576u + (subgroup_column + 16u) / 4u], 18u);
            sum_0_1 = coopMultiplyAdd(lhs_0, rhs_1, sum_0_1);
            sum_1_1 = coopMultiplyAdd(lhs_1, rhs_1, sum_1_1);
        }
         {
            let lhs_0 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 0u) * 18u + 12u], 18u);
            let lhs_1 = coopLoadT<coop_mat16x16<f16, A>>(&lhs_tile[lhs_buffer + (subgroup_row + 16u) * 18u + 12u], 18u);
            let rhs_0 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 864u + (subgroup_column + 0u) / 4u], 18u);
            sum_0_0 = coopMultiplyAdd(lhs_0, rhs_0, sum_0_0);
            sum_1_0 = coopMultiplyAdd(lhs_1, rhs_0, sum_1_0);
            let rhs_1 = coopLoadT<coop_mat16x16<f16, B>>(&rhs_tile[rhs_buffer + 864u + (subgroup_column + 16u) / 4u], 18u);
            sum_0_1 = coopMultiplyAdd(lhs_0, rhs_1, sum_0_1);
            sum_1_1 = coopMultiplyAdd(lhs_1, rhs_1, sum_1_1);
        }
        workgroupBarrier();
    }
    coopStoreT(sum_0_0, &result_tile[subgroup * 256u], 16u);
    workgroupBarrier();
    for (var place = lane * 1u; place < 256u; place += 32u) {
        let row = first_row + subgroup_row + 0u + place / 16u;
        let column = first_column + subgroup_column + 0u + place % 16u;
        if (row < 70u) {
            let value = result_tile[subgroup * 256u + place + 0u];
            let index = (batch * 70u + row) * 64u + column;
                let product_row = batch * 70u + row;
                let t0 = value;
                let t1 = b2[column];
                let t2 = (t0 + t1);
                b3[index] = t2;
        }
    }
    workgroupBarrier();
    coopStoreT(sum_0_1, &result_tile[subgroup * 256u], 16u);
    workgroupBarrier();
    for (var place = lane * 1u; place < 256u; place += 32u) {
        let row = first_row + subgroup_row + 0u + place / 16u;
        let column = first_column + subgroup_column + 16u + place % 16u;
        if (row < 70u) {
            let value = result_tile[subgroup * 256u + place + 0u];
            let index = (batch * 70u + row) * 64u + column;
                let product_row = batch * 70u + row;
                let t0 = value;
                let t1 = b2[column];
                let t2 = (t0 + t1);
                b3[index] = t2;
        }
    }
    workgroupBarrier();
    coopStoreT(sum_1_0, &result_tile[subgroup * 256u], 16u);
    workgroupBarrier();
    for (var place = lane * 1u; place < 256u; place += 32u) {
        let row = first_row + subgroup_row + 16u + place / 16u;
        let column = first_column + subgroup_column + 0u + place % 16u;
        if (row < 70u) {
            let value = result_tile[subgroup * 256u + place + 0u];
            let index = (batch * 70u + row) * 64u + column;
                let product_row = batch * 70u + row;
                let t0 = value;
                let t1 = b2[column];
                let t2 = (t0 + t1);
                b3[index] = t2;
        }
    }
    workgroupBarrier();
    coopStoreT(sum_1_1, &result_tile[subgroup * 256u], 16u);
    workgroupBarrier();
    for (var place = lane * 1u; place < 256u; place += 32u) {
        let row = first_row + subgroup_row + 16u + place / 16u;
        let column = first_column + subgroup_column + 16u + place % 16u;
        if (row < 70u) {
            let value = result_tile[subgroup * 256u + place + 0u];
            let index = (batch * 70u + row) * 64u + column;
                let product_row = batch * 70u + row;
                let t0 = value;
                let t1 = b2[column];
                let t2 = (t0 + t1);
                b3[index] = t2;
        }
    }
    workgroupBarrier();
}
