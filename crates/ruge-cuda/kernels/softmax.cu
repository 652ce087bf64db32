// Softmax over all entities: queries, slopes of the scores, and gradients of rows. cuBLAS computes the products.
//
// A question is (given, answer, relation, side); side is 1 if the head is hidden. With SIDES 2 a relation row holds one
// half for each side, RC · D floats each. d_ends holds a row per question for its given end and, if relations are asked
// for, after those a row per question for its answer.

#define HALF (RC * D)

// Type of the factors of the large products: 16 bits for the tensor cores, or 32.
#if ROUNDED
typedef unsigned short Number;
__device__ __forceinline__ Number to_number(float x) {
    Number y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
#else
typedef float Number;
__device__ __forceinline__ Number to_number(float x) { return x; }
#endif

template <int C, int K> __device__ __forceinline__ void store_numbers(Number* __restrict__ row, const float (&v)[C][K]) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int i = 0; i < K; ++i) {
            u32 at = team_thread() + i * T;
            if (at < D) row[c * D + at] = to_number(v[c][i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) to_numbers(const float* __restrict__ floats, Number* __restrict__ numbers, u64 count) {
    for (u64 at = blockIdx.x * 256ull + threadIdx.x; at < count; at += gridDim.x * 256ull) numbers[at] = to_number(floats[at]);
}

struct Moving { float* parameters; float* first; float* second; float rate; };

__device__ __forceinline__ const float* relation_row(const float* relations, uint4 x) {
    return relations + (u64)x.z * RS + (SIDES == 2 && x.w == 1 ? HALF : 0);
}

// Dropout: entries whose draw is below the threshold, in units of 2^-24.
struct Dropout { u64 seed, step; u32 threshold; float scale; };

__device__ __forceinline__ void drop_out(const Dropout& dropout, u32 question, Row& query) {
    if (dropout.threshold == 0) return;
#pragma unroll
    for (int c = 0; c < EC; ++c) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            u64 at = (u64)question * (EC * D) + c * D + team_thread() + i * T;
            bool out = (u32)(draw(dropout.seed, 0x117, dropout.step, at) >> 40) < dropout.threshold;
            query.v[c][i] = out ? 0.0f : query.v[c][i] * dropout.scale;
        }
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) softmax_queries(
    const uint4* __restrict__ questions, u32 count, const float* __restrict__ entities, const float* __restrict__ relations,
    Dropout dropout, Number* __restrict__ queries, float* __restrict__ own_scores)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 x = questions[at];
        Row given, query;
        Relation relation;
        load(entities + (u64)x.x * ES, given.v);
        load(relation_row(relations, x), relation.v);
        if (SIDES == 1 && x.w == 1) head_query(relation, given, query); else tail_query(given, relation, query);
        drop_out(dropout, at, query);
        store_numbers(queries + (u64)at * ES, query.v);
        // If candidates are a sample, answers are scored separately.
        if (own_scores) {
            load(entities + (u64)x.y * ES, given.v);
            float product = 0.0f;
#pragma unroll
            for (int c = 0; c < EC; ++c)
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) product = fmaf(query.v[c][i], given.v[c][i], product);
            product = team_sum(product);
            if (team_thread() == 0) own_scores[at] = product;
        }
    }
}

#define LANES 512

// (largest, sum of exp(score - largest)) of two parts of a row.
__device__ __forceinline__ void join(float& largest, float& sum, float other, float other_sum) {
    float both = fmaxf(largest, other);
    // An empty part has no largest; a sum that is NaN stays NaN.
    float left = sum == 0.0f ? 0.0f : sum * __expf(largest - both);
    float right = other_sum == 0.0f ? 0.0f : other_sum * __expf(other - both);
    largest = both;
    sum = left + right;
}

// A row's largest score and sum of exp(score - largest), in every thread of its block; indexes in [from, to) are not
// candidates.
__device__ __forceinline__ void sum_row(const float* row, u32 candidates, u32 from, u32 to, float& largest, float& sum) {
    largest = __int_as_float(0xff800000);
    sum = 0.0f;
    for (u32 at = threadIdx.x; at < candidates; at += LANES) {
        if (at >= from && at < to) continue;
        float score = row[at];
        if (score > largest) {
            sum = sum == 0.0f ? 1.0f : fmaf(sum, __expf(largest - score), 1.0f);
            largest = score;
        } else {
            // NaN reaches this line and makes the sum NaN, which the host reports as divergence.
            sum += __expf(score - largest);
        }
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        float other = __shfl_xor_sync(FULL, largest, distance), other_sum = __shfl_xor_sync(FULL, sum, distance);
        // The lower lane's part is first on both sides, so that all lanes hold the same bits.
        if (threadIdx.x & distance) {
            float mine = largest, mine_sum = sum;
            largest = other;
            sum = other_sum;
            join(largest, sum, mine, mine_sum);
        } else {
            join(largest, sum, other, other_sum);
        }
    }
    __shared__ float tops[LANES / 32], sums[LANES / 32];
    if (threadIdx.x % 32 == 0) {
        tops[threadIdx.x / 32] = largest;
        sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    largest = tops[0];
    sum = sums[0];
    for (int warp = 1; warp < LANES / 32; ++warp) join(largest, sum, tops[warp], sums[warp]);
}

// One block per question: turns its row of scores into d loss / d score, without the factor of the batch, and stores
// its loss. Slopes may overwrite the scores. Rows are `stride` floats apart, a multiple that suits tensor cores;
// indexes in [gap.x, gap.y) are not candidates.
extern "C" __global__ void __launch_bounds__(LANES) softmax_slopes(
    const float* scores, u32 stride, u32 candidates, uint2 gap, const u32* __restrict__ answers,
    const float* __restrict__ weights, float factor, Number* slopes, float* __restrict__ losses)
{
    const float* own = scores + (u64)blockIdx.x * stride;
    const u32 answer = answers[blockIdx.x];
    const float own_score = own[answer];
    float largest, sum;
    sum_row(own, candidates, gap.x, gap.y, largest, sum);
    const float weight = weights[blockIdx.x], scale = weight / sum;
    if (threadIdx.x == 0) losses[blockIdx.x] = weight * factor * (logf(sum) + largest - own_score);
    Number* out = slopes + (u64)blockIdx.x * stride;
    for (u32 at = threadIdx.x; at < candidates; at += LANES) {
        float slope = scale * __expf(own[at] - largest);
        out[at] = to_number(at == answer ? slope - weight : slope);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) softmax_backward(
    const uint4* __restrict__ questions, u32 count, const float* __restrict__ entities, const float* __restrict__ relations,
    Dropout dropout, const float* __restrict__ d_queries, const float* __restrict__ d_own, float* __restrict__ d_ends,
    float* __restrict__ d_relations)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 x = questions[at];
        Row given, d_query, d_given;
        Relation relation, d_relation;
        load(entities + (u64)x.x * ES, given.v);
        load(relation_row(relations, x), relation.v);
        load(d_queries + (u64)at * ES, d_query.v);
        if (d_own) {
            const float slope = d_own[at];
            load(entities + (u64)x.y * ES, d_given.v);
#pragma unroll
            for (int c = 0; c < EC; ++c)
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) d_query.v[c][i] = fmaf(slope, d_given.v[c][i], d_query.v[c][i]);
        }
        drop_out(dropout, at, d_query);
        clear(d_given.v);
        clear(d_relation.v);
        if (SIDES == 1 && x.w == 1) head_backward(relation, given, d_query, d_relation, d_given);
        else tail_backward(given, relation, d_query, d_given, d_relation);
        store(d_ends + (u64)at * ES, d_given.v);
        store(d_relations + (u64)at * HALF, d_relation.v);
    }
}

#if IS_DOT
// The ends for (h, ?, t): a reciprocal relation leads from the given end to the answer.
__device__ __forceinline__ bool given_is_head(uint4 x) { return SIDES == 2 || x.w == 0; }

__device__ __forceinline__ void as_relation(const Row& row, Relation& relation) {
#pragma unroll
    for (int c = 0; c < EC; ++c)
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) relation.v[c][i] = row.v[c][i];
}

// r enters t ∘ conj(h) as h enters t ∘ conj(r).
extern "C" __global__ void __launch_bounds__(BLOCK) relation_queries(
    const uint4* __restrict__ questions, u32 count, const float* __restrict__ entities, Number* __restrict__ queries)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 x = questions[at];
        Row head, tail, query;
        load(entities + (u64)(given_is_head(x) ? x.x : x.y) * ES, head.v);
        load(entities + (u64)(given_is_head(x) ? x.y : x.x) * ES, tail.v);
        Relation as;
        as_relation(head, as);
        head_query(as, tail, query);
        store_numbers(queries + (u64)at * HALF, query.v);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) relation_backward(
    const uint4* __restrict__ questions, u32 count, const float* __restrict__ entities, const float* __restrict__ d_queries,
    float* __restrict__ d_ends)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 x = questions[at];
        const bool straight = given_is_head(x);
        Row head, tail, d_query, d_tail;
        load(entities + (u64)(straight ? x.x : x.y) * ES, head.v);
        load(entities + (u64)(straight ? x.y : x.x) * ES, tail.v);
        load(d_queries + (u64)at * HALF, d_query.v);
        Relation as, d_head;
        as_relation(head, as);
        clear(d_head.v);
        clear(d_tail.v);
        head_backward(as, tail, d_query, d_head, d_tail);
        Row given;
        float* mine = d_ends + (u64)at * ES;
        float* other = d_ends + (u64)(count + at) * ES;
        load(mine, given.v);
#pragma unroll
        for (int c = 0; c < EC; ++c) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) given.v[c][i] += straight ? d_head.v[c][i] : d_tail.v[c][i];
        }
        store(mine, given.v);
        if (straight) store(other, d_tail.v); else store(other, d_head.v);
    }
}
#endif

// Adds (cubed |x| + squared) x to a gradient, with moduli over complex pairs.
template <int C> __device__ __forceinline__ void add_penalty(float cubed, float squared, const float (&x)[C][ITEMS], float (&g)[C][ITEMS]) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        float modulus = C == 2 ? sqrtf(fmaf(x[C - 1][i], x[C - 1][i], x[0][i] * x[0][i])) : fabsf(x[0][i]);
#pragma unroll
        for (int c = 0; c < C; ++c) g[c][i] = fmaf(fmaf(cubed, modulus, squared), x[c][i], g[c][i]);
    }
}

// The owner of a touched row adds the gradients of its slots in order. `touched` lists (row, from, to, weight); halves
// of relation rows count separately.
template <int C> __device__ __forceinline__ void gather(
    const float* __restrict__ parameters, float* __restrict__ gradients, uint4 touch, const u32* __restrict__ slots,
    const float* __restrict__ found, u32 stride, float cubed, float squared)
{
    float sum[C][ITEMS], x[C][ITEMS], one[C][ITEMS];
    load(gradients, sum);
    load(parameters, x);
#pragma unroll 4
    for (u32 at = touch.y; at < touch.z; ++at) {
        load(found + (u64)slots[at] * stride, one);
#pragma unroll
        for (int c = 0; c < C; ++c)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) sum[c][i] += one[c][i];
    }
    add_penalty(cubed * __uint_as_float(touch.w), squared * __uint_as_float(touch.w), x, sum);
    store(gradients, sum);
}

extern "C" __global__ void __launch_bounds__(BLOCK) gather_entities(
    const uint4* __restrict__ touched, u32 count, const u32* __restrict__ slots, const float* __restrict__ entities,
    const float* __restrict__ d_ends, float cubed, float squared, float* __restrict__ gradients)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 touch = touched[at];
        gather<EC>(entities + (u64)touch.x * ES, gradients + (u64)touch.x * ES, touch, slots, d_ends, ES, cubed, squared);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) gather_relations(
    const uint4* __restrict__ touched, u32 count, const u32* __restrict__ slots, const float* __restrict__ relations,
    const float* __restrict__ d_relations, float cubed, float squared, float* __restrict__ gradients)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 touch = touched[at];
        u64 row = (u64)(touch.x / SIDES) * RS + (touch.x % SIDES) * HALF;
        gather<RC>(relations + row, gradients + row, touch, slots, d_relations, HALF, cubed, squared);
    }
}

// The penalty of touched rows whose parameters are in another basis than the scored rows: real rows of `width` floats.
extern "C" __global__ void __launch_bounds__(128) penalise(
    const uint4* __restrict__ touched, u32 count, const float* __restrict__ parameters, u32 stride, u32 width, float cubed,
    float squared, float* __restrict__ gradients)
{
    for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
        const u64 row = (u64)touched[at].x * stride;
        const float weight = __uint_as_float(touched[at].w), c = cubed * weight, s = squared * weight;
        for (u32 i = threadIdx.x; i < width; i += 128) {
            const float x = parameters[row + i];
            gradients[row + i] = fmaf(fmaf(c, fabsf(x), s), x, gradients[row + i]);
        }
    }
}

__device__ __forceinline__ void move_one(float g, float& x, float& a, float& b, float rate, float first, float second) {
#if OPTIMIZER == 0
    a = fmaf(g, g, a);
    x -= rate * g / (sqrtf(a) + EPSILON);
#elif OPTIMIZER == 1
    a = fmaf(g, g, a);
    x -= rate * g / sqrtf(a + EPSILON);
#elif OPTIMIZER == 2
    x = fmaf(-rate, g, x);
#else
    a = fmaf(BETA1, a, (1.0f - BETA1) * g);
    b = fmaf(BETA2, b, (1.0f - BETA2) * (g * g));
    x -= rate * (a * first) / (sqrtf(b * second) + EPSILON);
#endif
}

// Updates every row: softmax touches them all. `floats` is a multiple of 4; first and second are Adam's corrections.
// `numbers` is updated with the parameters if they are rounded and scored directly.
extern "C" __global__ void __launch_bounds__(256) move_all(
    const float4* __restrict__ gradients, Moving moving, u64 floats, float first, float second, Number* __restrict__ numbers)
{
    for (u64 at = blockIdx.x * 256ull + threadIdx.x; at < floats / 4; at += gridDim.x * 256ull) {
        float4 g = gradients[at];
        float4* parameters = (float4*)moving.parameters;
        float4 x = parameters[at], a = {}, b = {};
        if (OPTIMIZER != 2) a = ((float4*)moving.first)[at];
        if (OPTIMIZER == 3) b = ((float4*)moving.second)[at];
        move_one(g.x, x.x, a.x, b.x, moving.rate, first, second);
        move_one(g.y, x.y, a.y, b.y, moving.rate, first, second);
        move_one(g.z, x.z, a.z, b.z, moving.rate, first, second);
        move_one(g.w, x.w, a.w, b.w, moving.rate, first, second);
        parameters[at] = x;
#if ROUNDED
        if (numbers) ((ushort4*)numbers)[at] = make_ushort4(to_number(x.x), to_number(x.y), to_number(x.z), to_number(x.w));
#endif
        if (OPTIMIZER != 2) ((float4*)moving.first)[at] = a;
        if (OPTIMIZER == 3) ((float4*)moving.second)[at] = b;
    }
}
