// The order of an epoch: negatives by the CPU's counter-based streams, and the transpose of each batch.

// One batch: the ranges of its positives, unlabeled triples, touches and relation rows in the arrays of the epoch.
struct Batch {
    u32 positives, positives_end;
    u32 unlabeled, unlabeled_end;
    u32 relations, relations_end;
    u32 groundings, groundings_end;
    u64 touches;
};

__device__ __forceinline__ bool contains(const u64* keys, u64 count, u64 key) {
    u64 from = 0, to = count;
    while (from < to) {
        u64 middle = (from + to) / 2;
        if (keys[middle] < key) from = middle + 1; else to = middle;
    }
    return from < count && keys[from] == key;
}

// One thread per positive. `order` holds (position in the epoch, index among the triples). `shares` is the probability
// of replacing the head, by relation; negative for halves, above 1 if one fair coin decides for all negatives. `keys`
// are the sorted facts for filtered draws.
extern "C" __global__ void draw_negatives(
    const uint2* __restrict__ order, u32 count, const uint4* __restrict__ triples, u64 seed, const u64* __restrict__ epoch_at,
    u32 entities, u32 relations, int keep_original, int filtered, const u64* __restrict__ keys, u64 key_count,
    const double* __restrict__ shares, uint4* __restrict__ positives, u32* __restrict__ negatives)
{
    u32 p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= count) return;
    const u64 epoch = *epoch_at;
    const uint2 place = order[p];
    uint4 positive = triples[place.y];
    const double share = shares[positive.y];
    const u64 first = (u64)place.x * ALPHA;
    u32 heads = 0;
    u32* out = negatives + (u64)p * ALPHA;
    u32 written = 0;
    for (int pass = 0; pass < 2; ++pass) {
        for (u32 k = 0; k < ALPHA; ++k) {
            bool head = k < ALPHA / 2;
            if (share > 1.0) head = (double)(draw(seed, 0x114, epoch, first) >> 11) * 0x1p-53 < 0.5;
            else if (share >= 0.0) head = (double)(draw(seed, 0x114, epoch, first + k) >> 11) * 0x1p-53 < share;
            if (head != (pass == 0)) continue;
            const u32 original = head ? positive.x : positive.z;
            u64 others = (u64)entities - (keep_original ? 0 : 1);
            if (others == 0) others = 1;
            u32 found = original;
            for (u64 attempt = 0; attempt < 100; ++attempt) {
                u64 drawn = draw(seed, 0x113 + (attempt << 32), epoch, first + k);
                u32 entity = (u32)__umul64hi(drawn, others);
                if (!keep_original && entities > 1 && entity >= original) entity += 1;
                found = entity;
                if (!filtered) break;
                u64 h = head ? entity : positive.x, t = head ? positive.z : entity;
                if (!contains(keys, key_count, (h * relations + positive.y) * entities + t)) break;
            }
            out[written++] = found;
            heads += head;
        }
    }
    positive.w = heads;
    positives[p] = positive;
}

#define SORTERS 512

__device__ __forceinline__ u32 block_exclusive(u32 x, u32* scratch, u32& total) {
    // Exclusive sum over the block, in thread order.
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = x;
    for (int distance = 1; distance < 32; distance *= 2) {
        u32 other = __shfl_up_sync(FULL, sum, distance);
        if (lane >= distance) sum += other;
    }
    __syncthreads();
    if (lane == 31) scratch[warp] = sum;
    __syncthreads();
    u32 before = 0;
    total = 0;
    for (u32 w = 0; w < SORTERS / 32; ++w) {
        if (w < warp) before += scratch[w];
        total += scratch[w];
    }
    return before + sum - x;
}

// The entity of a touch. Touches are numbered slot by slot: head, tail, then the negatives; after the positives come
// the head and the tail of each unlabeled triple.
__device__ __forceinline__ u32 touched(
    u32 touch, u32 count, const Batch& batch, const uint4* positives, const u32* negatives, const uint4* unlabeled)
{
    u32 labeled = count * (2 + ALPHA);
    if (touch < labeled) {
        u32 slot = touch / (2 + ALPHA), k = touch % (2 + ALPHA);
        if (k >= 2) return negatives[(u64)(batch.positives + slot) * ALPHA + k - 2];
        uint4 x = positives[batch.positives + slot];
        return k == 0 ? x.x : x.z;
    }
    u32 at = touch - labeled;
    uint4 x = unlabeled[batch.unlabeled + at / 2];
    return at % 2 == 0 ? x.x : x.z;
}

// One block per batch: a stable radix sort of its touches by entity, four bits at a time, then the distinct rows.
extern "C" __global__ void sort_touches(
    const Batch* __restrict__ batches, const uint4* __restrict__ positives, const u32* __restrict__ negatives,
    const uint4* __restrict__ unlabeled, int bits, u64* __restrict__ front, u64* __restrict__ back,
    uint2* __restrict__ rows, u32* __restrict__ row_counts)
{
    __shared__ u32 counts[16 * SORTERS];
    __shared__ u32 scratch[SORTERS / 32];
    const Batch batch = batches[blockIdx.x];
    const u32 count = batch.positives_end - batch.positives;
    const u32 items = count * (2 + ALPHA) + 2 * (batch.unlabeled_end - batch.unlabeled);
    const u32 share = (items + SORTERS - 1) / SORTERS;
    const u32 from = min(threadIdx.x * share, items), to = min(from + share, items);
    u64* source = front + batch.touches;
    u64* target = back + batch.touches;
    for (u32 i = threadIdx.x; i < items; i += SORTERS)
        source[i] = (u64)touched(i, count, batch, positives, negatives, unlabeled) << 32 | i;
    for (int shift = 32; shift < 32 + bits; shift += 4) {
        __syncthreads();
        for (int digit = 0; digit < 16; ++digit) counts[digit * SORTERS + threadIdx.x] = 0;
        for (u32 i = from; i < to; ++i) counts[((source[i] >> shift) & 15) * SORTERS + threadIdx.x] += 1;
        __syncthreads();
        // Digit-major exclusive sums: thread j takes 16 consecutive counters.
        u32 sum = 0, total;
        for (int k = 0; k < 16; ++k) sum += counts[threadIdx.x * 16 + k];
        u32 before = block_exclusive(sum, scratch, total);
        for (int k = 0; k < 16; ++k) {
            u32 own = counts[threadIdx.x * 16 + k];
            counts[threadIdx.x * 16 + k] = before;
            before += own;
        }
        __syncthreads();
        for (u32 i = from; i < to; ++i) {
            u64 item = source[i];
            target[counts[((item >> shift) & 15) * SORTERS + threadIdx.x]++] = item;
        }
        u64* swap = source;
        source = target;
        target = swap;
    }
    __syncthreads();
    u32 starts = 0, total;
    for (u32 i = from; i < to; ++i) starts += i == 0 || source[i] >> 32 != source[i - 1] >> 32;
    u32 place = block_exclusive(starts, scratch, total);
    for (u32 i = from; i < to; ++i)
        if (i == 0 || source[i] >> 32 != source[i - 1] >> 32)
            rows[batch.touches + place++] = make_uint2((u32)(source[i] >> 32), i);
    if (threadIdx.x == 0) row_counts[blockIdx.x] = total;
}
