// Targets beyond a single answer (several answers, label smoothing, binary cross-entropy), and dropout of queries.

// The sum over a block of LANES threads, with the same bits in every thread.
__device__ __forceinline__ float block_sum(float x) {
    __shared__ float parts[LANES / 32];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(FULL, x, distance);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0.0f;
    for (int warp = 0; warp < LANES / 32; ++warp) x += parts[warp];
    return x;
}

__device__ __forceinline__ float block_largest(float x) {
    __shared__ float parts[LANES / 32];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(FULL, x, distance));
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    for (int warp = 0; warp < LANES / 32; ++warp) x = fmaxf(x, parts[warp]);
    return x;
}

__device__ __forceinline__ float logistic(float x) {
    float small = __expf(-fabsf(x)), large = 1.0f / (1.0f + small);
    return x < 0.0f ? small * large : large;
}

// One block per question, like softmax_slopes. Answers of question q, (entity, bits of target), are in [ends[q], ends[q
// + 1]).
extern "C" __global__ void __launch_bounds__(LANES) target_slopes(
    const float* scores, u32 stride, u32 candidates, const u32* __restrict__ ends, const uint2* __restrict__ answers,
    const float* __restrict__ weights, float factor, float smoothing, int binary, Number* slopes, float* __restrict__ losses)
{
    const float* own = scores + (u64)blockIdx.x * stride;
    Number* out = slopes + (u64)blockIdx.x * stride;
    const u32 from = ends[blockIdx.x], to = ends[blockIdx.x + 1];
    const float weight = weights[blockIdx.x];
    float largest = 0.0f, sum = 0.0f, total = 0.0f, wanted = 0.0f;
    if (!binary) {
        largest = __int_as_float(0xff800000);
        for (u32 at = threadIdx.x; at < candidates; at += LANES) largest = fmaxf(largest, own[at]);
        largest = block_largest(largest);
    }
    for (u32 at = threadIdx.x; at < candidates; at += LANES) {
        float score = own[at];
        // NaN reaches the sum either way, and the host reports it as divergence.
        sum += binary ? (score > 0.0f ? score : 0.0f) + log1pf(__expf(-fabsf(score))) : __expf(score - largest);
        total += score;
    }
    for (u32 at = from + threadIdx.x; at < to; at += LANES)
        wanted = fmaf(__uint_as_float(answers[at].y), own[answers[at].x], wanted);
    sum = block_sum(sum);
    total = block_sum(total);
    wanted = block_sum(wanted);
    const float even = smoothing / (float)candidates;
    if (threadIdx.x == 0)
        losses[blockIdx.x] = weight * factor * ((binary ? sum : logf(sum) + largest) - (1.0f - smoothing) * wanted - even * total);
    const float scale = binary ? weight : weight / sum;
    for (u32 at = threadIdx.x; at < candidates; at += LANES)
        out[at] = to_number(scale * (binary ? logistic(own[at]) : __expf(own[at] - largest)) - weight * even);
    __syncthreads();
    for (u32 at = from + threadIdx.x; at < to; at += LANES) {
        const u32 place = answers[at].x;
        const float target = weight * (1.0f - smoothing) * __uint_as_float(answers[at].y);
#if ROUNDED
        // Slopes are stored separately from the scores: recomputed, so that they are rounded once.
        float slope = scale * (binary ? logistic(own[place]) : __expf(own[place] - largest)) - weight * even;
#else
        float slope = out[place];
#endif
        out[place] = to_number(slope - target);
    }
}
