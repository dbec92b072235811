// Rows kept in memory within a budget of bytes, found by key.
//
// A key's hash names a set of up to eight places; a new row takes the place of the set whose row was used longest ago.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <new>

class RowCache {
   public:
    static constexpr uint64_t kMostWays = 8;
    // Of a place beside its row: tag and time of last use.
    static constexpr uint64_t kPlaceNbytes = 16;

    // Rows of `width` bytes in at most `nbytes` bytes, for keys of at most `most_rows` rows.
    RowCache(size_t width, uint64_t nbytes, uint64_t most_rows) : width_(width) {
        // The rows of a set that is full while others are not: twice the places would still miss a few.
        const uint64_t rows = std::min(nbytes / (width + kPlaceNbytes), 2 * most_rows);
        ways_ = std::min(rows, kMostWays);
        sets_ = rows >= kMostWays ? rows / kMostWays : std::min<uint64_t>(rows, 1);
        tags_.reset(zeros<int64_t>(capacity()));
        used_.reset(zeros<uint64_t>(capacity()));
        rows_.reset(zeros<uint8_t>(capacity() * width));
    }

    // How many rows fit, and what they take.
    uint64_t capacity() const { return sets_ * ways_; }
    uint64_t nbytes() const { return capacity() * (width_ + kPlaceNbytes); }

    // What is used from here on counts as used later than all before.
    void tick() { ++time_; }

    // The row of `key` (0 or more), which counts as used now; nullptr where it is not kept.
    const uint8_t* find(int64_t key) {
        const uint64_t first = set_of(key) * ways_;
        for (uint64_t place = first; place < first + ways_; ++place)
            if (tags_[place] == key + 1) {
                used_[place] = time_;
                return &rows_[place * width_];
            }
        return nullptr;
    }

    // Where the row of `key`, which is not kept, is to be written; nullptr where all places of its set were used since
    // the last tick, or there are none.
    uint8_t* place_of(int64_t key) {
        const uint64_t first = set_of(key) * ways_;
        const uint64_t place = std::min_element(&used_[first], &used_[first + ways_]) - &used_[0];
        if (!ways_ || used_[place] == time_) return nullptr;
        tags_[place] = key + 1;
        used_[place] = time_;
        return &rows_[place * width_];
    }

   private:
    struct Free {
        void operator()(void* memory) const { free(memory); }
    };
    template <typename T>
    using Array = std::unique_ptr<T[], Free>;

    // Zeros cost no memory until they are written.
    template <typename T>
    static T* zeros(uint64_t count) {
        void* memory = calloc(std::max<uint64_t>(count, 1), sizeof(T));
        if (!memory) throw std::bad_alloc();
        return static_cast<T*>(memory);
    }

    uint64_t set_of(int64_t key) const {
        // 2^64 over the golden ratio: neighbouring keys go far apart.
        const uint64_t mixed = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u >> 32;
        return mixed * sets_ >> 32;
    }

    size_t width_;
    uint64_t ways_, sets_, time_ = 1;
    Array<int64_t> tags_;
    Array<uint64_t> used_;
    Array<uint8_t> rows_;
};
