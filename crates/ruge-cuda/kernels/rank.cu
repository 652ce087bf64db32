// Ranking: queries, scores that are not a matrix product, and counting.

// One team per triple.
extern "C" __global__ void __launch_bounds__(BLOCK) score_triples(
    const uint4* __restrict__ triples, u32 count, const float* __restrict__ entities, const float* __restrict__ relations, float* __restrict__ scores)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 x = triples[at];
        float score = score_of(entities, relations, x.x, x.y, x.z);
        if (team_thread() == 0) scores[at] = score;
    }
}

// The query vectors; w of a query is 0 if the head is hidden, 1 for the tail.
extern "C" __global__ void __launch_bounds__(BLOCK) make_queries(
    const uint4* __restrict__ queries, u32 count, const float* __restrict__ entities, const float* __restrict__ relations, float* __restrict__ vectors)
{
    for (u32 at = blockIdx.x * (BLOCK / T) + threadIdx.x / T; at < count; at += gridDim.x * (BLOCK / T)) {
        uint4 x = queries[at];
        Row row, query;
        Relation relation;
        // With reciprocal relations (?, r, t) is (t, r⁻¹, ?), and the row of r⁻¹ follows that of r.
        load(relations + (u64)x.y * RS + (SIDES == 2 && x.w == 0 ? RC * D : 0), relation.v);
        load(entities + (u64)(x.w == 0 ? x.z : x.x) * ES, row.v);
        if (SIDES == 1 && x.w == 0) head_query(relation, row, query); else tail_query(row, relation, query);
        store(vectors + (u64)at * ES, query.v);
    }
}

#define TILE 64
#define DEPTH 16

// Scores of all entities for models that are not a dot product: tiles of 64 queries by 64 entities, 4 by 4 per thread.
extern "C" __global__ void __launch_bounds__(256) distances(
    const float* __restrict__ vectors, u32 count, const float* __restrict__ entities, u32 entity_count, float* __restrict__ scores)
{
    __shared__ float q[EC][DEPTH][TILE + 1], e[EC][DEPTH][TILE + 1];
    const u32 first_query = blockIdx.y * TILE, first_entity = blockIdx.x * TILE;
    const u32 row = threadIdx.x / 16, column = threadIdx.x % 16;
    float sums[4][4] = {};
    for (u32 depth = 0; depth < D; depth += DEPTH) {
        __syncthreads();
        for (u32 at = threadIdx.x; at < TILE * DEPTH; at += 256) {
            u32 k = at % DEPTH, n = at / DEPTH;
            for (int c = 0; c < EC; ++c) {
                bool in = depth + k < D;
                q[c][k][n] = in && first_query + n < count ? vectors[(u64)(first_query + n) * ES + c * D + depth + k] : 0.0f;
                e[c][k][n] = in && first_entity + n < entity_count ? entities[(u64)(first_entity + n) * ES + c * D + depth + k] : 0.0f;
            }
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k) {
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) {
#if MODEL == ROTATE
                    float re = q[0][k][row + 16 * i] - e[0][k][column + 16 * j];
                    float im = q[EC - 1][k][row + 16 * i] - e[EC - 1][k][column + 16 * j];
                    sums[i][j] += sqrtf(fmaf(im, im, re * re));
#else
                    float difference = q[0][k][row + 16 * i] - e[0][k][column + 16 * j];
#if MODEL == TRANSE_L2
                    sums[i][j] = fmaf(difference, difference, sums[i][j]);
#else
                    sums[i][j] += fabsf(difference);
#endif
#endif
                }
            }
        }
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            u32 query = first_query + row + 16 * i, entity = first_entity + column + 16 * j;
            if (query < count && entity < entity_count)
                scores[(u64)query * entity_count + entity] = MODEL == TRANSE_L2 ? -sqrtf(sums[i][j]) : -sums[i][j];
        }
    }
}

// One block per query: counts scores above and equal to the answer's, among all and among known facts. NaN counts as
// minus infinity. `known` gives, for each query, the range [from, to) of `entities_known`, which may include the
// answer.
extern "C" __global__ void __launch_bounds__(256) count_ranks(
    const float* __restrict__ scores, u32 entity_count, const u32* __restrict__ answers, const uint2* __restrict__ known,
    const u32* __restrict__ entities_known, uint4* __restrict__ tallies)
{
    const u32 query = blockIdx.x;
    const float* own = scores + (u64)query * entity_count;
    const u32 answer = answers[query];
    const float low = __int_as_float(0xff800000);
    float target = own[answer];
    if (isnan(target)) target = low;
    u32 better = 0, equal = 0, better_known = 0, equal_known = 0;
    for (u32 e = threadIdx.x; e < entity_count; e += 256) {
        float score = own[e];
        better += score > target;
        equal += score == target || (isnan(score) && target == low);
    }
    const uint2 list = known[query];
    for (u32 at = list.x + threadIdx.x; at < list.y; at += 256) {
        u32 e = entities_known[at];
        if (e == answer) continue;
        float score = own[e];
        better_known += score > target;
        equal_known += score == target || (isnan(score) && target == low);
    }
    __shared__ u32 sums[4];
    if (threadIdx.x < 4) sums[threadIdx.x] = 0;
    __syncthreads();
    u32 counts[4] = {better, equal, better_known, equal_known};
    for (int k = 0; k < 4; ++k) {
        u32 sum = __reduce_add_sync(FULL, counts[k]);
        if (threadIdx.x % 32 == 0 && sum > 0) atomicAdd(&sums[k], sum);
    }
    __syncthreads();
    if (threadIdx.x == 0) tallies[query] = make_uint4(sums[0], sums[1], sums[2], sums[3]);
}
