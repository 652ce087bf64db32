// A training step: scores, losses and the vectors of each slot; then the owner of every row adds its contributions and
// updates it. No sum is shared between teams, so two runs give the same bits.

#define TAIL_QUERY 0
#define HEAD_QUERY 1
#define HEAD_GRADIENT 2
#define TAIL_GRADIENT 3
#define PARTS 4

struct Relations {
    u32 relation, from, to, unlabeled_from, unlabeled_to;
};

// Groundings, which never change: the premises of grounding g are in [ends[g], ends[g + 1]).
struct Evidence {
    const u32* premise_ends;
    const uint4* premises;
    const float* confidences;
    const u32* formula_ends;
    const u32* formulas;
};

// phi, clipped as in the reference.
__device__ __forceinline__ float truth_of(float x) {
    return x > 10.0f ? 1.0f : x < -10.0f ? 0.0f : 1.0f / (1.0f + expf(-x));
}

__device__ __forceinline__ float softplus(float x) {
    return fmaxf(x, 0.0f) + (fabsf(x) > 10.0f ? 0.0f : log1pf(expf(-fabsf(x))));
}

// Weight of one triple, pair or positive.
__device__ __forceinline__ float labeled_weight(const Batch& batch) {
    u32 count = batch.positives_end - batch.positives;
    u32 n = LOSS == 0 ? count * (1 + ALPHA) : LOSS == 1 ? count * ALPHA : LOSS == 2 ? 1 : count;
    return 1.0f / (float)(n > 0 ? n : 1);
}

// Weight of one occurrence of a triple in the penalty.
__device__ __forceinline__ float occurrence_weight(const Batch& batch) {
    u32 count = batch.positives_end - batch.positives;
    u32 n = LOSS == 0 || LOSS > 2 ? count * (1 + ALPHA) : LOSS == 1 ? count * ALPHA : 1;
    return 1.0f / (float)(n > 0 ? n : 1);
}

__device__ __forceinline__ float unlabeled_weight(const Batch& batch) {
    u32 n = batch.unlabeled_end - batch.unlabeled;
    return 1.0f / (float)(n > 0 ? n : 1);
}

// The truth of a grounding's premise: a conjunction, or any formula in postfix.
__device__ __forceinline__ float premise_truth(const Evidence& evidence, u32 grounding, const float* truths, u32 count, int t_norm) {
    u32 from = evidence.formula_ends[grounding], to = evidence.formula_ends[grounding + 1];
    if (from == to) {
        float result = t_norm == 1 ? 1.0f - (float)count : 1.0f;
        for (u32 k = 0; k < count; ++k)
            result = t_norm == 0 ? result * truths[k] : t_norm == 1 ? result + truths[k] : fminf(result, truths[k]);
        return t_norm == 1 ? fminf(fmaxf(result, 0.0f), 1.0f) : result;
    }
    float stack[STACK];
    int top = 0;
    for (u32 at = from; at < to; ++at) {
        u32 code = evidence.formulas[at];
        if (code >= 3) {
            stack[top++] = truths[code - 3];
        } else if (code == 0) {
            stack[top - 1] = 1.0f - stack[top - 1];
        } else {
            float b = stack[--top], a = stack[--top], value;
            if (code == 1) value = t_norm == 0 ? a * b : t_norm == 1 ? fmaxf(a + b - 1.0f, 0.0f) : fminf(a, b);
            else value = t_norm == 0 ? a + b - a * b : t_norm == 1 ? fminf(a + b, 1.0f) : fmaxf(a, b);
            stack[top++] = value;
        }
    }
    return fminf(fmaxf(stack[0], 0.0f), 1.0f);
}

// Eq. (9): the soft label of an unlabeled triple of truth `truth`, given the groundings [from, to) that conclude it.
__device__ float soft_label(
    float truth, const float* entities, const float* relations, const Evidence& evidence,
    const u32* groundings, float* supports, u32 from, u32 to)
{
    float label = truth;
    float truths[PREMISES];
    for (u32 at = from; at < to; ++at) {
        u32 grounding = groundings[at];
        u32 first = evidence.premise_ends[grounding], count = evidence.premise_ends[grounding + 1] - first;
        for (u32 k = 0; k < count; ++k) {
            uint4 x = evidence.premises[first + k];
            truths[k] = truth_of(SHIFT + score_of(entities, relations, x.x, x.y, x.z));
        }
        float a = premise_truth(evidence, grounding, truths, count, T_NORM);
        float confidence = evidence.confidences[grounding];
        if (T_NORM == 0) label += SLACKNESS * confidence * a;
        else if (T_NORM == 2) label += truth > 1.0f - a ? SLACKNESS * confidence : 0.0f;
        else supports[at] = a;
    }
    if (T_NORM == 1) {
        // In order of descending premise truth; every thread of the team wrote the same values and reads its own.
        float last = 2.0f;
        u32 last_at = 0;
        for (u32 n = from; n < to; ++n) {
            float best = -1.0f;
            u32 best_at = to;
            for (u32 at = from; at < to; ++at) {
                float a = supports[at];
                bool after = a < last || (a == last && at > last_at);
                if (after && a > best) { best = a; best_at = at; }
            }
            if (label >= best) break;
            label += SLACKNESS * evidence.confidences[groundings[best_at]];
            if (label >= best) { label = best; break; }
            last = best;
            last_at = best_at;
        }
    }
    return fminf(fmaxf(label, 0.0f), 1.0f);
}

// A positive and its negatives, which share its queries: each negative is read once.
__device__ __forceinline__ void positive_slot(
    const Batch& batch, u32 slot, const float* __restrict__ entities, const float* __restrict__ relations,
    const uint4* __restrict__ positives, const u32* __restrict__ negatives,
    float* __restrict__ slots, float* __restrict__ relation_slots, float* __restrict__ d_scores, float* __restrict__ losses,
    const float* __restrict__ scores, const float* __restrict__ pulls, const float* __restrict__ weights)
{
    const u32 p = batch.positives + slot;
    const uint4 x = positives[p];
    float* vectors = slots + (u64)slot * PARTS * ES;
    const float relative = SUBSAMPLED ? weights[p] : 1.0f;
    const float weight = labeled_weight(batch) * relative;
    Row head, tail, query, d_query, d_head, d_tail;
    Relation relation, d_relation;
    load(entities + (u64)x.x * ES, head.v);
    load(relations + (u64)x.y * RS, relation.v);
    load(entities + (u64)x.z * ES, tail.v);
    tail_query(head, relation, query);
    store(vectors + TAIL_QUERY * ES, query.v);
    float positive_slope;
    const float positive_score = compare(query, tail, positive_slope);
    float loss = 0.0f, d_positive = 0.0f;
    if (LOSS == 0) {
        d_positive = (truth_of(SHIFT + positive_score) - 1.0f) * weight;
        loss = softplus(-(SHIFT + positive_score));
    }
    const float limit = MARGIN - SCALE * positive_score;
    u32 active = 0;
    clear(d_query.v);
    clear(d_head.v);
    clear(d_tail.v);
    clear(d_relation.v);
#if LOSS > 2
    d_positive = against_all(x.w, scores + (u64)slot * SCORES, pulls + (u64)slot * CHUNKS * PULLS, relation, tail,
        vectors + HEAD_QUERY * ES, positive_score, weight, loss, d_query, d_relation, d_tail);
    const Row tail_q = query;
#else
    const u32* own = negatives + (u64)p * ALPHA;
    float* own_d = d_scores + (u64)slot * ALPHA;
    for (u32 k = x.w; k < ALPHA; ++k) {
        Row other;
        load(entities + (u64)own[k] * ES, other.v);
        float slope, score = compare(query, other, slope), d = 0.0f;
        if (LOSS == 0) {
            d = truth_of(SHIFT + score) * weight;
            loss += softplus(SHIFT + score);
        } else {
            float hinge = fmaf(SCALE, score, limit);
            if (hinge > 0.0f) { d = SCALE * weight; loss += hinge; active += 1; }
        }
        d *= slope;
        if (d != 0.0f) add_slope(d, 1.0f, query, other, d_query);
        if (team_thread() == 0) own_d[k] = d;
    }
    Row tail_q = query;
    if (x.w > 0) {
        Row d_other;
        clear(d_other.v);
        head_query(relation, tail, query);
        store(vectors + HEAD_QUERY * ES, query.v);
        for (u32 k = 0; k < x.w; ++k) {
            Row other;
            load(entities + (u64)own[k] * ES, other.v);
            float slope, score = compare(query, other, slope), d = 0.0f;
            if (LOSS == 0) {
                d = truth_of(SHIFT + score) * weight;
                loss += softplus(SHIFT + score);
            } else {
                float hinge = fmaf(SCALE, score, limit);
                if (hinge > 0.0f) { d = SCALE * weight; loss += hinge; active += 1; }
            }
            d *= slope;
            if (d != 0.0f) add_slope(d, 1.0f, query, other, d_other);
            if (team_thread() == 0) own_d[k] = d;
        }
        head_backward(relation, tail, d_other, d_relation, d_tail);
    }
    if (LOSS != 0) d_positive = -(float)active * SCALE * weight;
#endif
    d_positive *= positive_slope;
    add_slope(d_positive, 1.0f, tail_q, tail, d_query);
    add_slope(d_positive, -1.0f, tail_q, tail, d_tail);
    tail_backward(head, relation, d_query, d_head, d_relation);
    store(vectors + HEAD_GRADIENT * ES, d_head.v);
    store(vectors + TAIL_GRADIENT * ES, d_tail.v);
    store(relation_slots + (u64)slot * RS, d_relation.v);
    if (team_thread() == 0) losses[p] = loss * relative;
}

// The first pass: one team per slot, positives first. `aims` holds soft labels (written when `fresh`) or, with
// injection, precomputed slopes.
extern "C" __global__ void __launch_bounds__(BLOCK) pass(
    const Batch* __restrict__ batches, u32 index, int fresh,
    const float* __restrict__ entities, const float* __restrict__ relations,
    const uint4* __restrict__ positives, const u32* __restrict__ negatives, const uint4* __restrict__ unlabeled,
    Evidence evidence, const u32* __restrict__ groundings, const u32* __restrict__ grounding_ends, float* __restrict__ supports,
    float* __restrict__ aims, float* __restrict__ slots, float* __restrict__ relation_slots, float* __restrict__ d_scores,
    float* __restrict__ losses, float* __restrict__ unlabeled_losses, const float* __restrict__ scores,
    const float* __restrict__ pulls, const float* __restrict__ weights)
{
    const Batch batch = batches[index];
    const u32 count = batch.positives_end - batch.positives;
    const u32 all = count + (batch.unlabeled_end - batch.unlabeled);
    for (u32 slot = blockIdx.x * TEAMS + threadIdx.x / T; slot < all; slot += gridDim.x * TEAMS) {
        if (slot < count) {
            positive_slot(batch, slot, entities, relations, positives, negatives, slots, relation_slots, d_scores, losses, scores, pulls, weights);
            continue;
        }
#if GUIDANCE > 0
        const u32 u = batch.unlabeled + slot - count;
        const uint4 x = unlabeled[u];
        Row head, tail, query, d_query, d_head, d_tail;
        Relation relation, d_relation;
        load(entities + (u64)x.x * ES, head.v);
        load(relations + (u64)x.y * RS, relation.v);
        load(entities + (u64)x.z * ES, tail.v);
        tail_query(head, relation, query);
        float slope;
        const float score = compare(query, tail, slope);
        float d;
        if (GUIDANCE == 1 || GUIDANCE == 3) {
            const float truth = truth_of(SHIFT + score);
            float label;
            if (GUIDANCE == 3) {
                // Fixed labels: the largest confidence of the triple's groundings, whatever their premises.
                label = 0.0f;
                for (u32 at = grounding_ends[u]; at < grounding_ends[u + 1]; ++at)
                    label = fmaxf(label, evidence.confidences[groundings[at]]);
            } else if (fresh) {
                label = soft_label(truth, entities, relations, evidence, groundings, supports, grounding_ends[u], grounding_ends[u + 1]);
                if (team_thread() == 0) aims[u] = label;
            } else {
                label = aims[u];
            }
            d = (truth - label) * unlabeled_weight(batch);
            if (team_thread() == 0)
                unlabeled_losses[u] = label * softplus(-(SHIFT + score)) + (1.0f - label) * softplus(SHIFT + score);
        } else {
            d = aims[u];
            if (team_thread() == 0) unlabeled_losses[u] = 0.0f;
        }
        d *= slope;
        clear(d_query.v);
        clear(d_head.v);
        clear(d_tail.v);
        clear(d_relation.v);
        if (d != 0.0f) {
            add_slope(d, 1.0f, query, tail, d_query);
            add_slope(d, -1.0f, query, tail, d_tail);
            tail_backward(head, relation, d_query, d_head, d_relation);
        }
        float* vectors = slots + (u64)slot * PARTS * ES;
        store(vectors + HEAD_GRADIENT * ES, d_head.v);
        store(vectors + TAIL_GRADIENT * ES, d_tail.v);
        store(relation_slots + (u64)slot * RS, d_relation.v);
#endif
    }
}

// KALE: slopes of the rule loss for every atom of a grounding; each atom has its own entry.
extern "C" __global__ void __launch_bounds__(BLOCK) inject(
    const Batch* __restrict__ batches, u32 index, const float* __restrict__ entities, const float* __restrict__ relations,
    const uint4* __restrict__ unlabeled, Evidence evidence, const u32* __restrict__ groundings,
    const u32* __restrict__ place_ends, const u32* __restrict__ places, float* __restrict__ aims)
{
    const Batch batch = batches[index];
    for (u32 at = batch.groundings + blockIdx.x * TEAMS + threadIdx.x / T; at < batch.groundings_end; at += gridDim.x * TEAMS) {
        const u32 grounding = groundings[at];
        const u32 first = place_ends[at], atoms = place_ends[at + 1] - first, count = atoms - 2;
        float truths[PREMISES + 2];
        for (u32 k = 0; k < atoms; ++k) {
            uint4 x = unlabeled[places[first + k]];
            truths[k] = fmaf(TRUTH_SCALE, score_of(entities, relations, x.x, x.y, x.z), 1.0f);
        }
        const float kept = truths[count], corrupted = truths[count + 1], pull = INJECTION * TRUTH_SCALE;
        const float premise = premise_truth(evidence, grounding, truths, count, 0);
        const bool on = INJECTION_MARGIN - premise * (kept - 1.0f) + premise * (corrupted - 1.0f) > 0.0f;
        for (u32 k = 0; k < count; ++k) {
            float own = truths[k];
            truths[k] = 0.0f;
            float below = premise_truth(evidence, grounding, truths, count, 0);
            truths[k] = 1.0f;
            float above = premise_truth(evidence, grounding, truths, count, 0);
            truths[k] = own;
            if (team_thread() == 0) aims[places[first + k]] = on ? pull * (above - below) * (corrupted - kept) : 0.0f;
        }
        if (team_thread() == 0) {
            aims[places[first + count]] = on ? -pull * premise : 0.0f;
            aims[places[first + count + 1]] = on ? pull * premise : 0.0f;
        }
    }
}

// The optimiser's data for a table and for the run.
struct Moving {
    float* parameters;
    float* first;
    float* second;
    float rate;
};

template <int N, int C, int K> __device__ __forceinline__ void cap_row(float (&g)[C][K]) {
    if (CAP <= 0.0f) return;
#pragma unroll
    for (int c = 0; c < C; ++c) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < K; ++i) squares = fmaf(g[c][i], g[c][i], squares);
        squares = team_sum(squares);
        if (squares > CAP * CAP) {
            float factor = CAP / sqrtf(squares);
#pragma unroll
            for (int i = 0; i < K; ++i) g[c][i] *= factor;
        }
    }
}

// Caps the gradient row and updates the parameters; `x` holds the row's parameters.
template <int N, int C, int K> __device__ __forceinline__ void move_row(
    const Moving& table, u64 offset, float (&x)[C][K], float (&g)[C][K], u64 step)
{
    cap_row<N>(g);
    float corrections[2] = {1.0f, 1.0f};
    if (OPTIMIZER == 3) {
        corrections[0] = (float)(1.0 / (1.0 - pow((double)BETA1, (double)step)));
        corrections[1] = (float)(1.0 / (1.0 - pow((double)BETA2, (double)step)));
    }
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int i = 0; i < K; ++i) {
            u32 at = team_thread() + i * T;
            if (at >= N) continue;
            u64 place = offset + c * N + at;
            float d = g[c][i];
            if (OPTIMIZER == 0 || OPTIMIZER == 1) {
                float a = fmaf(d, d, table.first[place]);
                table.first[place] = a;
                table.parameters[place] = x[c][i] - table.rate * d / (OPTIMIZER == 0 ? sqrtf(a) + EPSILON : sqrtf(a + EPSILON));
            } else if (OPTIMIZER == 2) {
                table.parameters[place] = fmaf(-table.rate, d, x[c][i]);
            } else {
                float m = fmaf(BETA1, table.first[place], (1.0f - BETA1) * d);
                float v = fmaf(BETA2, table.second[place], (1.0f - BETA2) * (d * d));
                table.first[place] = m;
                table.second[place] = v;
                table.parameters[place] = x[c][i] - table.rate * (m * corrections[0]) / (sqrtf(v * corrections[1]) + EPSILON);
            }
        }
    }
}

// Sums over FOLD touches, or slots of unlabeled triples, of one row. Computed before the update if a batch has very
// many, so that no owner adds thousands alone. The sum of an entry is at its index / FOLD. Null if nothing was folded.
#define FOLD 256
struct Folds {
    float* entities;
    uint2* occurrences;
    float* relations;
};

// Adds a range of an entity row's contributions, in the order of the sorted touches; `scored` is the row as scored.
__device__ __forceinline__ void sum_touches(
    const Batch& batch, const u64* __restrict__ touches, u32 from, u32 to, const uint4* __restrict__ positives,
    const float* __restrict__ slots, const float* __restrict__ d_scores, const Row& scored, Row& g, u32 (&occurrences)[2])
{
    const u32 count = batch.positives_end - batch.positives, labeled = count * (2 + ALPHA);
    for (u32 at = from; at < to; at += 4) {
        const float* vectors[4];
        float factors[4];
        bool is_query[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            factors[k] = 0.0f;
            is_query[k] = false;
            vectors[k] = slots;
            if (at + k >= to) continue;
            const u32 touch = (u32)touches[batch.touches + at + k];
            if (touch < labeled) {
                const u32 slot = touch / (2 + ALPHA), n = touch % (2 + ALPHA);
                const u32 heads = positives[batch.positives + slot].w;
                const float* own = slots + (u64)slot * PARTS * ES;
                if (n >= 2) {
                    factors[k] = d_scores[(u64)slot * ALPHA + n - 2];
                    vectors[k] = own + (n - 2 < heads ? HEAD_QUERY : TAIL_QUERY) * ES;
                    is_query[k] = true;
                    occurrences[0] += 1;
                } else {
                    factors[k] = 1.0f;
                    vectors[k] = own + (n == 0 ? HEAD_GRADIENT : TAIL_GRADIENT) * ES;
                    occurrences[0] += 1 + (n == 0 ? ALPHA - heads : heads);
                }
            } else {
                const u32 rest = touch - labeled;
                factors[k] = 1.0f;
                vectors[k] = slots + ((u64)(count + rest / 2) * PARTS + (rest % 2 == 0 ? HEAD_GRADIENT : TAIL_GRADIENT)) * ES;
                occurrences[1] += 1;
            }
        }
        Row read[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (factors[k] != 0.0f) load(vectors[k], read[k].v);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (factors[k] == 0.0f) continue;
            if (!IS_DOT && is_query[k]) {
                add_slope(factors[k], -1.0f, read[k], scored, g);
            } else {
#pragma unroll
                for (int c = 0; c < EC; ++c)
#pragma unroll
                    for (int i = 0; i < ITEMS; ++i) g.v[c][i] = fmaf(factors[k], read[k].v[c][i], g.v[c][i]);
            }
        }
    }
}

// Adds all contributions to an entity's row.
__device__ __forceinline__ void sum_entity(
    const Batch& batch, const u64* __restrict__ touches, u32 from, u32 to, const uint4* __restrict__ positives,
    const float* __restrict__ slots, const float* __restrict__ d_scores, const Folds& folds, const Row& scored, Row& g,
    u32 (&occurrences)[2])
{
    const u32 first = (from + FOLD - 1) / FOLD, last = to / FOLD;
    const bool folded = folds.entities && first < last;
    sum_touches(batch, touches, from, folded ? first * FOLD : to, positives, slots, d_scores, scored, g, occurrences);
    if (!folded) return;
#pragma unroll 4
    for (u32 k = first; k < last; ++k) {
        Row one;
        load(folds.entities + (u64)k * ES, one.v);
        const uint2 more = folds.occurrences[k];
        occurrences[0] += more.x;
        occurrences[1] += more.y;
#pragma unroll
        for (int c = 0; c < EC; ++c)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) g.v[c][i] += one.v[c][i];
    }
    sum_touches(batch, touches, last * FOLD, to, positives, slots, d_scores, scored, g, occurrences);
}

// The contributions to a relation's row in order: of its labeled slots, then of its unlabeled ones, folded if they are.
struct RelationParts {
    u32 labeled, before, folded, all, first;

    __device__ __forceinline__ RelationParts(const Relations& of, const Folds& folds) {
        labeled = of.to - of.from;
        const u32 unlabeled = of.unlabeled_to - of.unlabeled_from;
        first = (of.unlabeled_from + FOLD - 1) / FOLD;
        const u32 last = of.unlabeled_to / FOLD;
        const bool any = folds.relations && first < last;
        before = labeled + (any ? first * FOLD - of.unlabeled_from : unlabeled);
        folded = before + (any ? last - first : 0);
        all = folded + (any ? of.unlabeled_to - last * FOLD : 0);
    }

    __device__ __forceinline__ const float* part(
        const Relations& of, u32 positives, const float* relation_slots, const Folds& folds, u32 k) const
    {
        if (k < labeled) return relation_slots + (u64)(of.from + k) * RS;
        if (k < before) return relation_slots + (u64)(positives + of.unlabeled_from + (k - labeled)) * RS;
        if (k < folded) return folds.relations + (u64)(first + (k - before)) * RS;
        return relation_slots + (u64)(positives + of.unlabeled_to - (all - k)) * RS;
    }
};

// Adds the gradients of a relation's slots: each team of the block takes a share, then the shares are added in order.
// The first team holds the result.
__device__ __forceinline__ void sum_relation(
    const Relations& of, u32 positives, const float* __restrict__ relation_slots, const Folds& folds, Relation& g)
{
    __shared__ float shares[TEAMS > 1 ? TEAMS * RS : 1];
    const u32 team = threadIdx.x / T;
    const RelationParts parts(of, folds);
    clear(g.v);
    for (u32 k = team; k < parts.all; k += 2 * TEAMS) {
        Relation a, b;
        load(parts.part(of, positives, relation_slots, folds, k), a.v);
        const u32 next = k + TEAMS;
        if (next < parts.all) load(parts.part(of, positives, relation_slots, folds, next), b.v); else clear(b.v);
#pragma unroll
        for (int c = 0; c < RC; ++c)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) g.v[c][i] = (g.v[c][i] + a.v[c][i]) + b.v[c][i];
    }
    if (TEAMS == 1) return;
    __syncthreads();
    store(shares + team * RS, g.v);
    __syncthreads();
    if (team > 0) return;
    for (int k = 1; k < TEAMS; ++k) {
        Relation other;
        load(shares + k * RS, other.v);
#pragma unroll
        for (int c = 0; c < RC; ++c)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) g.v[c][i] += other.v[c][i];
    }
}

// The first `entity_blocks` blocks fold touches, the others slots of unlabeled triples, FOLD at a time if all belong to
// one row. Each team adds a share, then the shares are added in order.
extern "C" __global__ void __launch_bounds__(BLOCK) fold(
    const Batch* __restrict__ batches, u32 index, u32 entity_blocks, const float* __restrict__ scored,
    const uint4* __restrict__ positives, const uint4* __restrict__ unlabeled, const u64* __restrict__ touches,
    const float* __restrict__ slots, const float* __restrict__ relation_slots, const float* __restrict__ d_scores, Folds folds)
{
    __shared__ float shares[TEAMS * (ES > RS ? ES : RS)];
    __shared__ u32 counted[2 * TEAMS];
    const Batch batch = batches[index];
    const u32 count = batch.positives_end - batch.positives, without = batch.unlabeled_end - batch.unlabeled;
    const u32 team = threadIdx.x / T, share = FOLD / TEAMS;
    if (blockIdx.x < entity_blocks) {
        const u32 items = count * (2 + ALPHA) + 2 * without;
        for (u32 k = blockIdx.x; (k + 1) * FOLD <= items; k += entity_blocks) {
            const u64* own = touches + batch.touches + (u64)k * FOLD;
            const u32 entity = (u32)(own[0] >> 32);
            if ((u32)(own[FOLD - 1] >> 32) != entity) continue;
            Row x, g;
            u32 occurrences[2] = {0, 0};
            load(scored + (u64)entity * ES, x.v);
            clear(g.v);
            const u32 from = k * FOLD + team * share;
            sum_touches(batch, touches, from, from + share, positives, slots, d_scores, x, g, occurrences);
            __syncthreads();
            store(shares + team * ES, g.v);
            if (team_thread() == 0) {
                counted[2 * team] = occurrences[0];
                counted[2 * team + 1] = occurrences[1];
            }
            __syncthreads();
            if (team > 0) continue;
            for (int other = 1; other < TEAMS; ++other) {
                load(shares + other * ES, x.v);
                occurrences[0] += counted[2 * other];
                occurrences[1] += counted[2 * other + 1];
#pragma unroll
                for (int c = 0; c < EC; ++c)
#pragma unroll
                    for (int i = 0; i < ITEMS; ++i) g.v[c][i] += x.v[c][i];
            }
            store(folds.entities + (u64)k * ES, g.v);
            if (team_thread() == 0) folds.occurrences[k] = make_uint2(occurrences[0], occurrences[1]);
        }
        return;
    }
    const u32 blocks = gridDim.x - entity_blocks;
    for (u32 k = blockIdx.x - entity_blocks; (k + 1) * FOLD <= without; k += blocks) {
        const uint4* own = unlabeled + batch.unlabeled + k * FOLD;
        if (own[0].y != own[FOLD - 1].y) continue;
        Relation g, one;
        clear(g.v);
#pragma unroll 4
        for (u32 at = 0; at < share; ++at) {
            load(relation_slots + (u64)(count + k * FOLD + team * share + at) * RS, one.v);
#pragma unroll
            for (int c = 0; c < RC; ++c)
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) g.v[c][i] += one.v[c][i];
        }
        __syncthreads();
        store(shares + team * RS, g.v);
        __syncthreads();
        if (team > 0) continue;
        for (int other = 1; other < TEAMS; ++other) {
            load(shares + other * RS, one.v);
#pragma unroll
            for (int c = 0; c < RC; ++c)
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) g.v[c][i] += one.v[c][i];
        }
        store(folds.relations + (u64)k * RS, g.v);
    }
}

template <int C, int K> __device__ __forceinline__ void add_l2(const Batch& batch, u32 labeled, u32 unlabeled, const float (&x)[C][K], float (&g)[C][K]) {
    float l2 = fmaf((float)labeled, L2 * occurrence_weight(batch), (float)unlabeled * (L2 * unlabeled_weight(batch)));
    if (l2 == 0.0f) return;
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
        for (int i = 0; i < K; ++i) g[c][i] = fmaf(l2, x[c][i], g[c][i]);
}

// The second pass if parameters are scored directly: sum, penalty, cap and optimiser over a row in registers. The first
// `relation_blocks` blocks take relations, the others entities.
extern "C" __global__ void __launch_bounds__(BLOCK) update(
    const Batch* __restrict__ batches, u32 index, u32 step_in_epoch, const u64* __restrict__ steps_before, u32 relation_blocks,
    Moving entities, Moving relations, const uint4* __restrict__ positives, const u64* __restrict__ touches,
    const uint2* __restrict__ rows, const u32* __restrict__ row_counts, const Relations* __restrict__ relation_rows,
    const float* __restrict__ slots, const float* __restrict__ relation_slots, const float* __restrict__ d_scores, Folds folds)
{
    const Batch batch = batches[index];
    const u32 count = batch.positives_end - batch.positives;
    const u64 step = *steps_before + step_in_epoch + 1;
    if (blockIdx.x < relation_blocks) {
        for (u32 at = batch.relations + blockIdx.x; at < batch.relations_end; at += relation_blocks) {
            const Relations of = relation_rows[at];
            Relation g, x;
            __syncthreads();
            sum_relation(of, count, relation_slots, folds, g);
            if (threadIdx.x / T > 0) continue;
            const u64 offset = (u64)of.relation * RS;
            load(relations.parameters + offset, x.v);
            add_l2(batch, (of.to - of.from) * (1 + ALPHA), of.unlabeled_to - of.unlabeled_from, x.v, g.v);
            move_row<D>(relations, offset, x.v, g.v, step);
        }
        return;
    }
    const u32 items = count * (2 + ALPHA) + 2 * (batch.unlabeled_end - batch.unlabeled);
    const u32 row_count = row_counts[index];
    const u32 blocks = gridDim.x - relation_blocks;
    for (u32 k = (blockIdx.x - relation_blocks) * TEAMS + threadIdx.x / T; k < row_count; k += blocks * TEAMS) {
        const uint2 row = rows[batch.touches + k];
        const u32 to = k + 1 < row_count ? rows[batch.touches + k + 1].y : items;
        const u64 offset = (u64)row.x * ES;
        Row x, g;
        u32 occurrences[2] = {0, 0};
        load(entities.parameters + offset, x.v);
        clear(g.v);
        sum_entity(batch, touches, row.y, to, positives, slots, d_scores, folds, x, g, occurrences);
        add_l2(batch, occurrences[0], occurrences[1], x.v, g.v);
        move_row<D>(entities, offset, x.v, g.v, step);
    }
}

// The same in pieces, for parameters in another basis and for caps on whole matrices: sums go to gradient tables, which
// start as zeros, together with the occurrences of each row.
extern "C" __global__ void __launch_bounds__(BLOCK) sum_rows(
    const Batch* __restrict__ batches, u32 index, u32 relation_blocks, const float* __restrict__ scored,
    const uint4* __restrict__ positives, const u64* __restrict__ touches, const uint2* __restrict__ rows,
    const u32* __restrict__ row_counts, const Relations* __restrict__ relation_rows, const float* __restrict__ slots,
    const float* __restrict__ relation_slots, const float* __restrict__ d_scores, float* __restrict__ entity_gradients,
    float* __restrict__ relation_gradients, uint2* __restrict__ entity_occurrences, Folds folds)
{
    const Batch batch = batches[index];
    const u32 count = batch.positives_end - batch.positives;
    if (blockIdx.x < relation_blocks) {
        for (u32 at = batch.relations + blockIdx.x; at < batch.relations_end; at += relation_blocks) {
            Relation g;
            __syncthreads();
            sum_relation(relation_rows[at], count, relation_slots, folds, g);
            if (threadIdx.x / T == 0) store(relation_gradients + (u64)relation_rows[at].relation * RS, g.v);
        }
        return;
    }
    const u32 items = count * (2 + ALPHA) + 2 * (batch.unlabeled_end - batch.unlabeled);
    const u32 row_count = row_counts[index];
    const u32 blocks = gridDim.x - relation_blocks;
    for (u32 k = (blockIdx.x - relation_blocks) * TEAMS + threadIdx.x / T; k < row_count; k += blocks * TEAMS) {
        const uint2 row = rows[batch.touches + k];
        const u32 to = k + 1 < row_count ? rows[batch.touches + k + 1].y : items;
        Row x, g;
        u32 occurrences[2] = {0, 0};
        load(scored + (u64)row.x * ES, x.v);
        clear(g.v);
        sum_entity(batch, touches, row.y, to, positives, slots, d_scores, folds, x, g, occurrences);
        store(entity_gradients + (u64)row.x * ES, g.v);
        if (team_thread() == 0) entity_occurrences[k] = make_uint2(occurrences[0], occurrences[1]);
    }
}

#define PITEMS(n) (((n) + T - 1) / T)

// Penalty, cap and optimiser from gradient tables; with `squares` only the penalty, and the squares of each part.
template <int N, int C> __device__ __forceinline__ void move_from_table(
    const Batch& batch, const Moving& table, const float* gradients, u64 offset, u32 labeled, u32 unlabeled, u64 step,
    float* squares, const float* factors)
{
    float x[C][PITEMS(N)], g[C][PITEMS(N)];
    load_as<N>(table.parameters + offset, x);
    load_as<N>(gradients + offset, g);
    add_l2(batch, labeled, unlabeled, x, g);
#pragma unroll
    for (int c = 0; c < C; ++c) {
        if (squares) {
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < PITEMS(N); ++i) sum = fmaf(g[c][i], g[c][i], sum);
            sum = team_sum(sum);
            if (team_thread() == 0) squares[c] = sum;
        } else if (MATRIX_CAP > 0.0f) {
#pragma unroll
            for (int i = 0; i < PITEMS(N); ++i) g[c][i] *= factors[c];
        }
    }
    if (!squares) move_row<N>(table, offset, x, g, step);
}

// `squares` is null, or holds two floats per entity row of the batch and, from 2 · entity_rows, two per relation row.
extern "C" __global__ void __launch_bounds__(BLOCK) move_rows(
    const Batch* __restrict__ batches, u32 index, u32 step_in_epoch, const u64* __restrict__ steps_before,
    Moving entities, Moving relations, const uint2* __restrict__ rows, const u32* __restrict__ row_counts,
    const Relations* __restrict__ relation_rows, const uint2* __restrict__ entity_occurrences,
    const float* __restrict__ entity_gradients, const float* __restrict__ relation_gradients,
    float* __restrict__ squares, u32 entity_rows, const float* __restrict__ factors)
{
    const Batch batch = batches[index];
    const u64 step = *steps_before + step_in_epoch + 1;
    const u32 row_count = row_counts[index], relation_count = batch.relations_end - batch.relations;
    for (u32 k = blockIdx.x * TEAMS + threadIdx.x / T; k < row_count + relation_count; k += gridDim.x * TEAMS) {
        if (k < row_count) {
            const uint2 seen = entity_occurrences[k];
            move_from_table<PD_E, PC_E>(batch, entities, entity_gradients, (u64)rows[batch.touches + k].x * PS_E,
                seen.x, seen.y, step, squares ? squares + 2 * k : nullptr, factors);
        } else {
            const u32 r = k - row_count;
            const Relations of = relation_rows[batch.relations + r];
            move_from_table<PD_R, PC_R>(batch, relations, relation_gradients, (u64)of.relation * PS_R,
                (of.to - of.from) * (1 + ALPHA), of.unlabeled_to - of.unlabeled_from, step,
                squares ? squares + 2 * (entity_rows + r) : nullptr, factors + 2);
        }
    }
}

// Factors that scale each matrix to the maximum norm; one block, sums in fixed order.
extern "C" __global__ void matrix_factors(
    const Batch* __restrict__ batches, u32 index, const u32* __restrict__ row_counts, const float* __restrict__ squares,
    u32 entity_rows, float* __restrict__ factors)
{
    __shared__ double sums[4][256];
    double own[4] = {0, 0, 0, 0};
    const u32 relation_count = batches[index].relations_end - batches[index].relations;
    for (u32 k = threadIdx.x; k < row_counts[index]; k += 256)
        for (int c = 0; c < PC_E; ++c) own[c] += squares[2 * k + c];
    for (u32 k = threadIdx.x; k < relation_count; k += 256)
        for (int c = 0; c < PC_R; ++c) own[2 + c] += squares[2 * (entity_rows + k) + c];
    for (int c = 0; c < 4; ++c) sums[c][threadIdx.x] = own[c];
    __syncthreads();
    if (threadIdx.x < 4) {
        double sum = 0.0;
        for (int k = 0; k < 256; ++k) sum += sums[threadIdx.x][k];
        double norm = sqrt(sum);
        factors[threadIdx.x] = norm > MATRIX_CAP ? (float)(MATRIX_CAP / norm) : 1.0f;
    }
}

// Divides rows by their L2 norm; zero rows are unchanged.
template <int N, int C> __device__ __forceinline__ void normalise_table(float* table, u32 rows, u32 stride) {
    for (u32 row = blockIdx.x * TEAMS + threadIdx.x / T; row < rows; row += gridDim.x * TEAMS) {
        float x[C][PITEMS(N)], squares = 0.0f;
        load_as<N>(table + (u64)row * stride, x);
#pragma unroll
        for (int c = 0; c < C; ++c)
#pragma unroll
            for (int i = 0; i < PITEMS(N); ++i) squares = fmaf(x[c][i], x[c][i], squares);
        float norm = sqrtf(team_sum(squares));
        if (norm > 0.0f) {
#pragma unroll
            for (int c = 0; c < C; ++c)
#pragma unroll
                for (int i = 0; i < PITEMS(N); ++i) x[c][i] /= norm;
            store_as<N>(table + (u64)row * stride, x);
        }
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) normalise_entities(float* table, u32 rows) {
    normalise_table<PD_E, PC_E>(table, rows, PS_E);
}

extern "C" __global__ void __launch_bounds__(BLOCK) normalise_relations(float* table, u32 rows) {
    normalise_table<PD_R, PC_R>(table, rows, PS_R);
}

// Mean losses of each batch; one block per batch, sums in fixed order.
extern "C" __global__ void sum_losses(
    const Batch* __restrict__ batches, const float* __restrict__ losses, const float* __restrict__ unlabeled_losses, double* __restrict__ sums)
{
    __shared__ double parts[2][256];
    const Batch batch = batches[blockIdx.x];
    double labeled = 0.0, unlabeled = 0.0;
    for (u32 p = batch.positives + threadIdx.x; p < batch.positives_end; p += 256) labeled += losses[p];
    for (u32 u = batch.unlabeled + threadIdx.x; u < batch.unlabeled_end; u += 256) unlabeled += unlabeled_losses[u];
    parts[0][threadIdx.x] = labeled;
    parts[1][threadIdx.x] = unlabeled;
    __syncthreads();
    if (threadIdx.x < 2) {
        double sum = 0.0;
        for (int k = 0; k < 256; ++k) sum += parts[threadIdx.x][k];
        sums[2 * blockIdx.x + threadIdx.x] = sum * (threadIdx.x == 0 ? labeled_weight(batch) : unlabeled_weight(batch));
    }
}
