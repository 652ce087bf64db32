// Softmax over a sample of candidates: the entities drawn for a batch stand for all, each answer is scored separately,
// and only rows that a batch names or draws are updated.

__device__ __forceinline__ float from_number(Number x) {
#if ROUNDED
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#else
    return x;
#endif
}

// Copies the drawn rows, one after the other.
extern "C" __global__ void __launch_bounds__(256) gather_sample(
    const float* __restrict__ entities, const u32* __restrict__ drawn, u32 count, Number* __restrict__ rows)
{
    for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
        const float* from = entities + (u64)drawn[at] * ES;
        for (u32 i = threadIdx.x; i < ES; i += 256) rows[(u64)at * ES + i] = to_number(from[i]);
    }
}

// Like softmax_slopes. `places` holds an answer's index among the drawn entities, if any; it is skipped there, because
// it has its own score. Each drawn entity stands for an equal share of the `others`.
extern "C" __global__ void __launch_bounds__(LANES) sample_slopes(
    const float* scores, u32 stride, u32 candidates, const u32* __restrict__ places, const float* __restrict__ own_scores,
    const float* __restrict__ weights, float factor, float others, Number* slopes, float* __restrict__ d_own,
    float* __restrict__ losses)
{
    const float* row = scores + (u64)blockIdx.x * stride;
    const u32 place = places[blockIdx.x];
    const bool hit = place < candidates;
    float largest, sum;
    sum_row(row, candidates, hit ? place : 0, hit ? place + 1 : 0, largest, sum);
    const float drawn = (float)(candidates - (hit ? 1 : 0));
    const float share = logf(others / fmaxf(drawn, 1.0f)), own = own_scores[blockIdx.x];
    const float top = fmaxf(largest + share, own);
    const float own_part = __expf(own - top);
    // Nobody else was drawn: contributes nothing, not 0 · e^NaN.
    const float total = own_part + (sum == 0.0f ? 0.0f : sum * __expf(largest + share - top));
    const float weight = weights[blockIdx.x], scale = weight / total;
    if (threadIdx.x == 0) {
        losses[blockIdx.x] = weight * factor * (logf(total) + top - own);
        d_own[blockIdx.x] = weight * factor * (own_part / total - 1.0f);
    }
    Number* out = slopes + (u64)blockIdx.x * stride;
    for (u32 at = threadIdx.x; at < candidates; at += LANES) {
        out[at] = to_number(hit && at == place ? 0.0f : scale * __expf(row[at] + share - top));
    }
}

// The owner of a row that a batch names or has drawn adds its gradients and updates it. `touched` is as in gather;
// `parts` lists (index among the drawn + 1, from, to, 0): the questions that the row answers are `answers` [from, to).
extern "C" __global__ void __launch_bounds__(BLOCK) move_sampled(
    const uint4* __restrict__ touched, const uint4* __restrict__ parts, u32 count, const u32* __restrict__ slots,
    const u32* __restrict__ answers, const float* __restrict__ gradients, const float* __restrict__ d_ends,
    const float* __restrict__ d_own, const Number* __restrict__ queries, float cubed, float squared, Moving moving, float first,
    float second)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        const uint4 touch = touched[at], part = parts[at];
        float sum[EC][ITEMS], one[EC][ITEMS], x[EC][ITEMS], a[EC][ITEMS], b[EC][ITEMS];
        if (part.x > 0) load(gradients + (u64)(part.x - 1) * ES, sum); else clear(sum);
        for (u32 slot = part.y; slot < part.z; ++slot) {
            const u32 question = answers[slot];
            const float slope = d_own[question];
            const Number* query = queries + (u64)question * ES;
#pragma unroll
            for (int c = 0; c < EC; ++c) {
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) {
                    const u32 entry = team_thread() + i * T;
                    if (entry < D) sum[c][i] = fmaf(slope, from_number(query[c * D + entry]), sum[c][i]);
                }
            }
        }
        for (u32 slot = touch.y; slot < touch.z; ++slot) {
            load(d_ends + (u64)slots[slot] * ES, one);
#pragma unroll
            for (int c = 0; c < EC; ++c)
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) sum[c][i] += one[c][i];
        }
        const u64 row = (u64)touch.x * ES;
        load(moving.parameters + row, x);
        add_penalty(cubed * __uint_as_float(touch.w), squared * __uint_as_float(touch.w), x, sum);
        clear(a);
        clear(b);
        if (OPTIMIZER != 2) load(moving.first + row, a);
        if (OPTIMIZER == 3) load(moving.second + row, b);
#pragma unroll
        for (int c = 0; c < EC; ++c)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) move_one(sum[c][i], x[c][i], a[c][i], b[c][i], moving.rate, first, second);
        store(moving.parameters + row, x);
        if (OPTIMIZER != 2) store(moving.first + row, a);
        if (OPTIMIZER == 3) store(moving.second + row, b);
    }
}
