// Scoring functions, entry by entry, and sums over a team of threads.
//
// The host prepends a few #defines (see source.rs): MODEL, D entries per row as scored, EC and RC components per entity
// and relation entry, ES and RS floats between rows, T threads per team and ALPHA negatives per positive. A team owns a
// row or a slot; its thread j holds the entries j, j + T, j + 2T, …

typedef unsigned int u32;
typedef unsigned long long u64;

#define COMPLEX 0
#define DISTMULT 1
#define TRANSE_L1 2
#define TRANSE_L2 3
#define ROTATE 4

#define ITEMS ((D + T - 1) / T)
#define FULL 0xffffffffu
// Teams per block.
#define TEAMS (BLOCK / T)
#define IS_DOT (MODEL == COMPLEX || MODEL == DISTMULT)

struct Row { float v[EC][ITEMS]; };
struct Relation { float v[RC][ITEMS]; };

__device__ __forceinline__ u32 team_thread() { return threadIdx.x % T; }

// Sums over a team, with the same bits in every thread: additions at distance 16, 8, 4, 2, 1, then warp by warp.
template <int K> __device__ __forceinline__ void team_sums(float (&x)[K]) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
        for (int k = 0; k < K; ++k) x[k] += __shfl_xor_sync(FULL, x[k], distance);
#if T > 32
    __shared__ float warps[K][T / 32];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; ++k)
        if (threadIdx.x % 32 == 0) warps[k][threadIdx.x / 32] = x[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; ++k) {
        x[k] = 0.0f;
#pragma unroll
        for (int warp = 0; warp < T / 32; ++warp) x[k] += warps[k][warp];
    }
#endif
}

__device__ __forceinline__ float team_sum(float x) {
    float sums[1] = {x};
    team_sums(sums);
    return sums[0];
}

// The maximum over a team, in every thread.
__device__ __forceinline__ float team_max(float x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(FULL, x, distance));
#if T > 32
    __shared__ float warps[T / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < T / 32; ++warp) x = fmaxf(x, warps[warp]);
#endif
    return x;
}

// Rows of N entries of C components; N differs from D only for parameters in another basis.
template <int N, int C, int K> __device__ __forceinline__ void load_as(const float* __restrict__ row, float (&v)[C][K]) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int i = 0; i < K; ++i) {
            u32 at = team_thread() + i * T;
            v[c][i] = at < N ? row[c * N + at] : 0.0f;
        }
    }
}

template <int N, int C, int K> __device__ __forceinline__ void store_as(float* __restrict__ row, const float (&v)[C][K]) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int i = 0; i < K; ++i) {
            u32 at = team_thread() + i * T;
            if (at < N) row[c * N + at] = v[c][i];
        }
    }
}

template <int C, int K> __device__ __forceinline__ void load(const float* __restrict__ row, float (&v)[C][K]) { load_as<D>(row, v); }
template <int C, int K> __device__ __forceinline__ void store(float* __restrict__ row, const float (&v)[C][K]) { store_as<D>(row, v); }

template <int C, int K> __device__ __forceinline__ void clear(float (&v)[C][K]) {
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
        for (int i = 0; i < K; ++i) v[c][i] = 0.0f;
}

// (sin x, cos x): the same polynomials as on the CPU.
__device__ __forceinline__ void sin_cos(float x, float& sine_out, float& cosine_out) {
    float turns = rintf(x * 0.636619772f);
    float y = fmaf(-turns, 7.54979e-8f, fmaf(-turns, 4.837513e-4f, fmaf(-turns, 1.5703125f, x)));
    float square = y * y;
    float sine = fmaf(fmaf(fmaf(fmaf(1.0f / 362880.0f, square, -1.0f / 5040.0f), square, 1.0f / 120.0f), square, -1.0f / 6.0f), square * y, y);
    float cosine = fmaf(fmaf(fmaf(fmaf(1.0f / 40320.0f, square, -1.0f / 720.0f), square, 1.0f / 24.0f), square, -0.5f), square, 1.0f);
    int quarter = (int)turns;
    float s = (quarter & 1) ? cosine : sine;
    float c = (quarter & 1) ? sine : cosine;
    sine_out = (quarter & 2) ? -s : s;
    cosine_out = ((quarter + 1) & 2) ? -c : c;
}

// q such that compare(q, tail) is the score.
__device__ __forceinline__ void tail_query(const Row& h, const Relation& r, Row& q) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#if MODEL == COMPLEX
        q.v[0][i] = fmaf(h.v[0][i], r.v[0][i], -(h.v[1][i] * r.v[1][i]));
        q.v[1][i] = fmaf(h.v[0][i], r.v[1][i], h.v[1][i] * r.v[0][i]);
#elif MODEL == DISTMULT
        q.v[0][i] = h.v[0][i] * r.v[0][i];
#elif MODEL == ROTATE
        float s, c;
        sin_cos(r.v[0][i], s, c);
        q.v[0][i] = fmaf(h.v[0][i], c, -(h.v[1][i] * s));
        q.v[1][i] = fmaf(h.v[0][i], s, h.v[1][i] * c);
#else
        q.v[0][i] = h.v[0][i] + r.v[0][i];
#endif
    }
}

// q such that compare(q, head) is the score.
__device__ __forceinline__ void head_query(const Relation& r, const Row& t, Row& q) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#if MODEL == COMPLEX
        q.v[0][i] = fmaf(t.v[0][i], r.v[0][i], t.v[1][i] * r.v[1][i]);
        q.v[1][i] = fmaf(-t.v[0][i], r.v[1][i], t.v[1][i] * r.v[0][i]);
#elif MODEL == DISTMULT
        q.v[0][i] = t.v[0][i] * r.v[0][i];
#elif MODEL == ROTATE
        float s, c;
        sin_cos(r.v[0][i], s, c);
        q.v[0][i] = fmaf(t.v[0][i], c, t.v[1][i] * s);
        q.v[1][i] = fmaf(t.v[1][i], c, -(t.v[0][i] * s));
#else
        q.v[0][i] = t.v[0][i] - r.v[0][i];
#endif
    }
}

// Given d/dq of a tail query, adds d/dhead and d/drelation.
__device__ __forceinline__ void tail_backward(const Row& h, const Relation& r, const Row& d, Row& d_h, Relation& d_r) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#if MODEL == COMPLEX
        d_h.v[0][i] = fmaf(d.v[0][i], r.v[0][i], fmaf(d.v[1][i], r.v[1][i], d_h.v[0][i]));
        d_h.v[1][i] = fmaf(-d.v[0][i], r.v[1][i], fmaf(d.v[1][i], r.v[0][i], d_h.v[1][i]));
        d_r.v[0][i] = fmaf(d.v[0][i], h.v[0][i], fmaf(d.v[1][i], h.v[1][i], d_r.v[0][i]));
        d_r.v[1][i] = fmaf(-d.v[0][i], h.v[1][i], fmaf(d.v[1][i], h.v[0][i], d_r.v[1][i]));
#elif MODEL == DISTMULT
        d_h.v[0][i] = fmaf(d.v[0][i], r.v[0][i], d_h.v[0][i]);
        d_r.v[0][i] = fmaf(d.v[0][i], h.v[0][i], d_r.v[0][i]);
#elif MODEL == ROTATE
        float s, c;
        sin_cos(r.v[0][i], s, c);
        d_h.v[0][i] += fmaf(d.v[0][i], c, d.v[1][i] * s);
        d_h.v[1][i] += fmaf(d.v[1][i], c, -(d.v[0][i] * s));
        float re = fmaf(h.v[0][i], c, -(h.v[1][i] * s));
        float im = fmaf(h.v[0][i], s, h.v[1][i] * c);
        d_r.v[0][i] += fmaf(d.v[1][i], re, -(d.v[0][i] * im));
#else
        d_h.v[0][i] += d.v[0][i];
        d_r.v[0][i] += d.v[0][i];
#endif
    }
}

// Given d/dq of a head query, adds d/drelation and d/dtail.
__device__ __forceinline__ void head_backward(const Relation& r, const Row& t, const Row& d, Relation& d_r, Row& d_t) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#if MODEL == COMPLEX
        d_t.v[0][i] = fmaf(d.v[0][i], r.v[0][i], fmaf(-d.v[1][i], r.v[1][i], d_t.v[0][i]));
        d_t.v[1][i] = fmaf(d.v[0][i], r.v[1][i], fmaf(d.v[1][i], r.v[0][i], d_t.v[1][i]));
        d_r.v[0][i] = fmaf(t.v[0][i], d.v[0][i], fmaf(t.v[1][i], d.v[1][i], d_r.v[0][i]));
        d_r.v[1][i] = fmaf(-t.v[0][i], d.v[1][i], fmaf(t.v[1][i], d.v[0][i], d_r.v[1][i]));
#elif MODEL == DISTMULT
        d_t.v[0][i] = fmaf(d.v[0][i], r.v[0][i], d_t.v[0][i]);
        d_r.v[0][i] = fmaf(d.v[0][i], t.v[0][i], d_r.v[0][i]);
#elif MODEL == ROTATE
        float s, c;
        sin_cos(r.v[0][i], s, c);
        d_t.v[0][i] += fmaf(d.v[0][i], c, -(d.v[1][i] * s));
        d_t.v[1][i] += fmaf(d.v[0][i], s, d.v[1][i] * c);
        float re = fmaf(t.v[0][i], c, t.v[1][i] * s);
        float im = fmaf(t.v[1][i], c, -(t.v[0][i] * s));
        d_r.v[0][i] += fmaf(d.v[0][i], im, -(d.v[1][i] * re));
#else
        d_r.v[0][i] -= d.v[0][i];
        d_t.v[0][i] += d.v[0][i];
#endif
    }
}

// A thread's share of the comparison of a query and a candidate.
__device__ __forceinline__ float differ(const Row& q, const Row& e) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#if MODEL == ROTATE
        float re = q.v[0][i] - e.v[0][i], im = q.v[1][i] - e.v[1][i];
        sum += sqrtf(fmaf(im, im, re * re));
#else
#pragma unroll
        for (int c = 0; c < EC; ++c) {
#if IS_DOT
            sum = fmaf(q.v[c][i], e.v[c][i], sum);
#elif MODEL == TRANSE_L1
            sum += fabsf(q.v[c][i] - e.v[c][i]);
#else
            float difference = q.v[c][i] - e.v[c][i];
            sum = fmaf(difference, difference, sum);
#endif
        }
#endif
    }
    return sum;
}

// The score, once the shares are summed. `slope`: factor from d_score to the gradient, 1 or 1/distance (L2 norm).
__device__ __forceinline__ float met(float sum, float& slope) {
    slope = 1.0f;
#if IS_DOT
    return sum;
#elif MODEL == TRANSE_L2
    float distance = sqrtf(sum);
    slope = distance > 0.0f ? 1.0f / distance : 0.0f;
    return -distance;
#else
    return -sum;
#endif
}

__device__ __forceinline__ float compare(const Row& q, const Row& e, float& slope) {
    return met(team_sum(differ(q, e)), slope);
}

// Adds factor · dscore/dquery (sign = 1) or factor · dscore/dcandidate (sign = -1), for distances; for dot products the
// other vector. The factor includes the slope.
__device__ __forceinline__ void add_slope(float factor, float sign, const Row& q, const Row& e, Row& out) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#if MODEL == ROTATE
        float re = q.v[0][i] - e.v[0][i], im = q.v[1][i] - e.v[1][i];
        float squares = fmaf(im, im, re * re);
        // A root and a division would cost more than reading the row; two units in the last place do not matter here.
        float f = squares > 0.0f ? -sign * factor * rsqrtf(squares) : 0.0f;
        out.v[0][i] = fmaf(f, re, out.v[0][i]);
        out.v[1][i] = fmaf(f, im, out.v[1][i]);
#else
#pragma unroll
        for (int c = 0; c < EC; ++c) {
#if IS_DOT
            out.v[c][i] = fmaf(factor, sign > 0.0f ? e.v[c][i] : q.v[c][i], out.v[c][i]);
#elif MODEL == TRANSE_L1
            float difference = q.v[c][i] - e.v[c][i];
            float direction = (float)(difference > 0.0f) - (float)(difference < 0.0f);
            out.v[c][i] = fmaf(-sign * factor, direction, out.v[c][i]);
#else
            out.v[c][i] = fmaf(-sign * factor, q.v[c][i] - e.v[c][i], out.v[c][i]);
#endif
        }
#endif
    }
}

// The score of a triple.
__device__ __forceinline__ float score_of(const float* entities, const float* relations, u32 h, u32 r, u32 t) {
    Row head, tail, query;
    Relation relation;
    load(entities + (u64)h * ES, head.v);
    load(relations + (u64)r * RS, relation.v);
    load(entities + (u64)t * ES, tail.v);
    tail_query(head, relation, query);
    float slope;
    return compare(query, tail, slope);
}
