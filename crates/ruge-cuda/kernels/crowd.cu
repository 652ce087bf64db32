// A positive against all its negatives: losses that need all scores before any slope, which are self-adversarial
// negatives (3) and the sampled softmax (4). Negatives are assigned to teams in chunks, in two rounds: first all
// scores, then slopes and the gradients of the queries, one sum per chunk. `pass` adds the chunks in order.

#if LOSS > 2
// Negatives per chunk, and chunks per positive; the host uses the same CHUNK.
#define CHUNKS ((ALPHA + CHUNK - 1) / CHUNK)
// Scores of a positive: its negatives', then its own.
#define SCORES (ALPHA + 1)
// Negatives compared at once.
#define AT_ONCE 4
// Floats for the sums of a chunk: of its tails, then of its heads.
#define PULLS (2 * ES)

__device__ __forceinline__ float labeled_weight(const Batch& batch);

// ln(1 + e^x), written to `value`; returns its slope. Nothing is clipped.
__device__ __forceinline__ float whole_softplus(float x, float& value) {
    float small = expf(-fabsf(x)), large = 1.0f / (1.0f + small);
    value = fmaxf(x, 0.0f) + log1pf(small);
    return x < 0.0f ? small * large : large;
}

__device__ __forceinline__ float tempered(float score) { return LOSS == 3 ? TEMPERATURE * score : score; }

// The softmax over a positive's negatives, and over the positive too for the sampled softmax: the largest exponent, the
// sum of all, and the weighted softplus of the negatives.
struct Crowd {
    float largest, sum, loss;
};

__device__ __forceinline__ Crowd crowd_of(const float* __restrict__ scores) {
    Crowd crowd = {LOSS == 4 ? scores[ALPHA] - SHARE : -3.0e38f, 0.0f, 0.0f};
    for (u32 k = team_thread(); k < ALPHA; k += T) crowd.largest = fmaxf(crowd.largest, tempered(scores[k]));
    crowd.largest = team_max(crowd.largest);
    for (u32 k = team_thread(); k < ALPHA; k += T) {
        float one = expf(tempered(scores[k]) - crowd.largest), term;
        whole_softplus(SHIFT + scores[k], term);
        crowd.sum += one;
        if (LOSS == 3) crowd.loss = fmaf(one, term, crowd.loss);
    }
    float sums[2] = {crowd.sum, crowd.loss};
    team_sums(sums);
    crowd.sum = sums[0];
    crowd.loss = sums[1];
    if (LOSS == 4) crowd.sum += expf(scores[ALPHA] - SHARE - crowd.largest);
    return crowd;
}

// A team's work on the negatives [from, to) of one query.
struct Score {
    float* scores;
    __device__ __forceinline__ void operator()(const Row& query, const Row (&others)[AT_ONCE], u32 k, u32 to) {
        float sums[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) sums[i] = differ(query, others[i]);
        team_sums(sums);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            float slope, score = met(sums[i], slope);
            if (team_thread() == i && k + i < to) scores[k + i] = score;
        }
    }
};

struct Slope {
    const float* scores;
    float* d_scores;
    Crowd crowd;
    float weight;
    Row pull;
    __device__ __forceinline__ void operator()(const Row& query, const Row (&others)[AT_ONCE], u32 k, u32 to) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (k + i >= to) continue;
            const float score = scores[k + i];
            float d = weight * (expf(tempered(score) - crowd.largest) / crowd.sum), term;
            if (LOSS == 3) d *= 0.5f * whole_softplus(SHIFT + score, term);
#if MODEL == TRANSE_L2
            d = score < 0.0f ? d / -score : 0.0f;
#endif
            if (d != 0.0f) add_slope(d, 1.0f, query, others[i], pull);
            if (team_thread() == i) d_scores[k + i] = d;
        }
    }
};

// Reads the rows of negatives, several at once, and passes them on.
template <typename Do> __device__ __forceinline__ void each_negative(
    const Row& query, u32 from, u32 to, const u32* __restrict__ own, const float* __restrict__ entities, Do& what)
{
    for (u32 k = from; k < to; k += AT_ONCE) {
        Row others[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) load(entities + (u64)own[k + i < to ? k + i : k] * ES, others[i].v);
        what(query, others, k, to);
    }
}

// A positive and one of its chunks: negatives [from, heads) replace the head, [heads, to) the tail.
struct Chunk {
    u32 slot, from, heads, to, p;
    uint4 x;
    __device__ __forceinline__ Chunk(const Batch& batch, const uint4* __restrict__ positives, u32 unit) {
        slot = unit / CHUNKS;
        from = unit % CHUNKS * CHUNK;
        to = from + CHUNK < ALPHA ? from + CHUNK : ALPHA;
        p = batch.positives + slot;
        x = positives[p];
        heads = x.w < from ? from : x.w < to ? x.w : to;
    }
};

__device__ __forceinline__ void tail_query_of(const uint4& x, const float* entities, const float* relations, Row& query) {
    Row head;
    Relation relation;
    load(entities + (u64)x.x * ES, head.v);
    load(relations + (u64)x.y * RS, relation.v);
    tail_query(head, relation, query);
}

__device__ __forceinline__ void head_query_of(const uint4& x, const float* entities, const float* relations, Row& query) {
    Row tail;
    Relation relation;
    load(entities + (u64)x.z * ES, tail.v);
    load(relations + (u64)x.y * RS, relation.v);
    head_query(relation, tail, query);
}

extern "C" __global__ void __launch_bounds__(BLOCK) score_crowd(
    const Batch* __restrict__ batches, u32 index, const float* __restrict__ entities, const float* __restrict__ relations,
    const uint4* __restrict__ positives, const u32* __restrict__ negatives, float* __restrict__ scores)
{
    const Batch batch = batches[index];
    const u32 units = (batch.positives_end - batch.positives) * CHUNKS;
    for (u32 unit = blockIdx.x * TEAMS + threadIdx.x / T; unit < units; unit += gridDim.x * TEAMS) {
        const Chunk chunk(batch, positives, unit);
        const u32* own = negatives + (u64)chunk.p * ALPHA;
        Score score = {scores + (u64)chunk.slot * SCORES};
        Row query;
        if (chunk.from < chunk.heads) {
            head_query_of(chunk.x, entities, relations, query);
            each_negative(query, chunk.from, chunk.heads, own, entities, score);
        }
        if (chunk.heads < chunk.to || (LOSS == 4 && chunk.from == 0)) {
            tail_query_of(chunk.x, entities, relations, query);
            each_negative(query, chunk.heads, chunk.to, own, entities, score);
            if (LOSS == 4 && chunk.from == 0) {
                Row tail;
                load(entities + (u64)chunk.x.z * ES, tail.v);
                float slope, own_score = compare(query, tail, slope);
                if (team_thread() == 0) score.scores[ALPHA] = own_score;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) slope_crowd(
    const Batch* __restrict__ batches, u32 index, const float* __restrict__ entities, const float* __restrict__ relations,
    const uint4* __restrict__ positives, const u32* __restrict__ negatives, const float* __restrict__ weights,
    const float* __restrict__ scores, float* __restrict__ d_scores, float* __restrict__ pulls)
{
    const Batch batch = batches[index];
    const u32 units = (batch.positives_end - batch.positives) * CHUNKS;
    for (u32 unit = blockIdx.x * TEAMS + threadIdx.x / T; unit < units; unit += gridDim.x * TEAMS) {
        const Chunk chunk(batch, positives, unit);
        const u32* own = negatives + (u64)chunk.p * ALPHA;
        Slope slope;
        slope.scores = scores + (u64)chunk.slot * SCORES;
        slope.d_scores = d_scores + (u64)chunk.slot * ALPHA;
        slope.crowd = crowd_of(slope.scores);
        slope.weight = labeled_weight(batch) * (SUBSAMPLED ? weights[chunk.p] : 1.0f);
        Row query;
        float* place = pulls + (u64)unit * PULLS;
        if (chunk.heads < chunk.to) {
            tail_query_of(chunk.x, entities, relations, query);
            clear(slope.pull.v);
            each_negative(query, chunk.heads, chunk.to, own, entities, slope);
            store(place, slope.pull.v);
        }
        if (chunk.from < chunk.heads) {
            head_query_of(chunk.x, entities, relations, query);
            clear(slope.pull.v);
            each_negative(query, chunk.from, chunk.heads, own, entities, slope);
            store(place + ES, slope.pull.v);
        }
    }
}

// The gradient of one of a positive's queries, from all chunks: of its tails (side 0) or of its heads (side 1).
__device__ __forceinline__ void add_pulls(const float* __restrict__ pulls, u32 side, u32 heads, Row& sum) {
    const u32 first = side == 0 ? heads / CHUNK : 0, last = side == 0 ? CHUNKS : (heads + CHUNK - 1) / CHUNK;
    for (u32 chunk = first; chunk < last; ++chunk) {
        Row one;
        load(pulls + (u64)chunk * PULLS + side * ES, one.v);
#pragma unroll
        for (int c = 0; c < EC; ++c)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) sum.v[c][i] += one.v[c][i];
    }
}

// The positive's slope and loss, and the gradients of its negatives' queries, after all chunks are done. Writes the
// head query if the rows of negatives need it.
__device__ __forceinline__ float against_all(
    u32 heads, const float* __restrict__ scores, const float* __restrict__ pulls, const Relation& relation, const Row& tail,
    float* __restrict__ head_place, float positive_score, float weight, float& loss, Row& d_query, Relation& d_relation, Row& d_tail)
{
    const Crowd crowd = crowd_of(scores);
    float d_positive;
    if (LOSS == 3) {
        float term, slope = whole_softplus(-(SHIFT + positive_score), term);
        d_positive = -0.5f * weight * slope;
        loss = 0.5f * (term + crowd.loss / crowd.sum);
    } else {
        d_positive = weight * (expf(positive_score - SHARE - crowd.largest) / crowd.sum - 1.0f);
        loss = logf(crowd.sum) + crowd.largest + SHARE - positive_score;
    }
    if (heads < ALPHA) add_pulls(pulls, 0, heads, d_query);
    if (heads > 0) {
        Row query, d_other;
        head_query(relation, tail, query);
        store(head_place, query.v);
        clear(d_other.v);
        add_pulls(pulls, 1, heads, d_other);
        head_backward(relation, tail, d_other, d_relation, d_tail);
    }
    return d_positive;
}
#endif
