// A positive against all its negatives: losses in which no negative has a slope before all have a score.

#if LOSS > 2
// The slope of ln(1 + e^x), which goes to `value`; nothing is cut off.
__device__ __forceinline__ float whole_softplus(float x, float& value) {
    float small = expf(-fabsf(x)), large = 1.0f / (1.0f + small);
    value = fmaxf(x, 0.0f) + log1pf(small);
    return x < 0.0f ? small * large : large;
}

// Everybody of a team sees what its threads have written.
__device__ __forceinline__ void team_sync() {
#if T > 32
    __syncthreads();
#else
    __syncwarp();
#endif
}

// Negatives that are weighed against each other: first the scores of all, then the slopes. `largest` and `sum` are those of a
// running softmax, `loss` is the sum of what its terms weigh.
struct Crowd {
    float largest, sum, loss;
    __device__ __forceinline__ void add(float x, float term) {
        float top = fmaxf(largest, x), old = expf(largest - top), one = expf(x - top);
        sum = fmaf(sum, old, one);
        loss = fmaf(loss, old, one * term);
        largest = top;
    }
};

// Scores of the negatives [from, to), which share a query. The next row is on its way while this one is compared.
__device__ __forceinline__ void crowd_scores(
    const Row& query, u32 from, u32 to, const u32* __restrict__ own, const float* __restrict__ entities,
    float* __restrict__ scores, Crowd& crowd)
{
    Row other, next;
    if (from < to) load(entities + (u64)own[from] * ES, other.v);
    for (u32 k = from; k < to; ++k) {
        if (k + 1 < to) load(entities + (u64)own[k + 1] * ES, next.v);
        float slope, score = compare(query, other, slope), term;
        whole_softplus(SHIFT + score, term);
        crowd.add(LOSS == 3 ? TEMPERATURE * score : score, term);
        if (team_thread() == 0) scores[k] = score;
        other = next;
    }
}

// Their slopes, and what they pull their query by.
__device__ __forceinline__ void crowd_slopes(
    const Row& query, u32 from, u32 to, const u32* __restrict__ own, const float* __restrict__ entities,
    const float* scores, const Crowd& crowd, float weight, float* __restrict__ own_d, Row& d_query)
{
    Row other, next;
    if (from < to) load(entities + (u64)own[from] * ES, other.v);
    for (u32 k = from; k < to; ++k) {
        if (k + 1 < to) load(entities + (u64)own[k + 1] * ES, next.v);
        const float score = scores[k];
        float d = weight * (expf((LOSS == 3 ? TEMPERATURE * score : score) - crowd.largest) / crowd.sum), term;
        if (LOSS == 3) d *= 0.5f * whole_softplus(SHIFT + score, term);
#if MODEL == TRANSE_L2
        d = score < 0.0f ? d / -score : 0.0f;
#endif
        if (d != 0.0f) add_slope(d, 1.0f, query, other, d_query);
        if (team_thread() == 0) own_d[k] = d;
        other = next;
    }
}

// Losses that see all negatives of a positive before they know the slope of one: self-adversarial negatives (3) and the sampled
// softmax (4). Rows are read twice. Adds to the gradients, writes the slopes of the negatives and the head query where it is
// needed, and returns the positive's slope.
__device__ __forceinline__ float against_all(
    u32 heads, const u32* __restrict__ own, float* __restrict__ own_d, float* __restrict__ scores,
    const float* __restrict__ entities, const Relation& relation, const Row& tail, const Row& tail_q, float* __restrict__ head_place,
    float positive_score, float weight, float& loss, Row& d_query, Relation& d_relation, Row& d_tail)
{
    Row query;
    Crowd crowd = {-3.0e38f, 0.0f, 0.0f};
    if (heads > 0) {
        head_query(relation, tail, query);
        store(head_place, query.v);
        crowd_scores(query, 0, heads, own, entities, scores, crowd);
    }
    crowd_scores(tail_q, heads, ALPHA, own, entities, scores, crowd);
    float d_positive;
    if (LOSS == 3) {
        float term, slope = whole_softplus(-(SHIFT + positive_score), term);
        d_positive = -0.5f * weight * slope;
        loss = 0.5f * (term + crowd.loss / crowd.sum);
    } else {
        crowd.add(positive_score - SHARE, 0.0f);
        d_positive = weight * (expf(positive_score - SHARE - crowd.largest) / crowd.sum - 1.0f);
        loss = logf(crowd.sum) + crowd.largest + SHARE - positive_score;
    }
    team_sync();
    crowd_slopes(tail_q, heads, ALPHA, own, entities, scores, crowd, weight, own_d, d_query);
    if (heads > 0) {
        Row d_other;
        clear(d_other.v);
        crowd_slopes(query, 0, heads, own, entities, scores, crowd, weight, own_d, d_other);
        head_backward(relation, tail, d_other, d_relation, d_tail);
    }
    return d_positive;
}
#endif
