// Seeded inputs for operators and a line of text for each of their results.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <vector>

// Elements at an address that is only 8-byte aligned, in a piece of heap that ends with the last of them.
template <typename T>
class Buffer {
   public:
    explicit Buffer(size_t count) : count(count), room(count * sizeof(T) + kOffset) {}
    T* data() { return reinterpret_cast<T*>(room.data() + kOffset); }
    operator T*() { return data(); }
    operator const T*() const { return reinterpret_cast<const T*>(room.data() + kOffset); }
    size_t nbytes() const { return count * sizeof(T); }

   private:
    static constexpr size_t kOffset = 8;
    size_t count;
    std::vector<uint8_t> room;
};

// E8M0 codes, both ends included.
struct Range {
    uint32_t low, high;
};

class Inputs {
   public:
    explicit Inputs(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 20261129) {}

    uint32_t bits() {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>(state >> 32);
    }
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(uint64_t{bits()} * bound >> 32); }

    // Between -1 and 1, times a power of two within +-`spread`.
    float number(int spread = 4) {
        const float unit = static_cast<float>(static_cast<int32_t>(bits())) * 0x1p-31f;
        return unit * __builtin_ldexpf(1.0f, static_cast<int>(below(static_cast<uint32_t>(2 * spread + 1))) - spread);
    }
    Buffer<float> floats(size_t count, int spread = 4) {
        Buffer<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = number(spread);
        return values;
    }
    Buffer<uint16_t> bf16(size_t count, int spread = 4) {
        Buffer<uint16_t> values(count);
        for (size_t i = 0; i < count; ++i) {
            const float value = number(spread);
            uint32_t raw;
            __builtin_memcpy(&raw, &value, sizeof raw);
            values[i] = static_cast<uint16_t>(raw >> 16);
        }
        return values;
    }
    // Any of 256, such as packed E2M1.
    Buffer<uint8_t> bytes(size_t count) {
        Buffer<uint8_t> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint8_t>(bits() >> 8);
        return values;
    }
    // E4M3 codes, all but the NaN ones.
    Buffer<uint8_t> e4m3(size_t count) {
        Buffer<uint8_t> codes = bytes(count);
        for (size_t i = 0; i < count; ++i) codes[i] = (codes[i] & 0x7f) == 0x7f ? 0 : codes[i];
        return codes;
    }
    Buffer<uint8_t> e8m0(size_t count, Range range = {110, 140}) {
        Buffer<uint8_t> scales(count);
        for (size_t i = 0; i < count; ++i)
            scales[i] = static_cast<uint8_t>(range.low + below(range.high - range.low + 1));
        return scales;
    }

   private:
    uint64_t state;
};

// `name case digest`, where the digest (64-bit FNV-1a) stands for the bytes of a result.
template <typename T>
void report(const char* name, const char* part, size_t number, const Buffer<T>& result) {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(static_cast<const T*>(result));
    uint64_t digest = 0xcbf29ce484222325u;
    for (size_t i = 0; i < result.nbytes(); ++i) digest = (digest ^ bytes[i]) * 0x100000001b3u;
    printf("%s %s %zu %016llx\n", name, part, number, static_cast<unsigned long long>(digest));
}
