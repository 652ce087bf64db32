// The CPU's counter-based streams: every draw is a pure function of (seed, stream, epoch, position).

__device__ __forceinline__ u64 mix(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 27)) * 0x3c79ac492ba7b653ull;
    x = (x ^ (x >> 33)) * 0x1c69b3f74ac4ae35ull;
    return x ^ (x >> 27);
}

__device__ __forceinline__ u64 draw(u64 seed, u64 stream, u64 epoch, u64 position) {
    u64 key = mix(seed ^ mix(stream ^ mix(epoch)));
    return mix(key ^ (position * 0x9e3779b97f4a7c15ull));
}
