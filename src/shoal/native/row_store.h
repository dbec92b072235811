// Rows of tables: those used last are kept, the others are read when they are requested and waited for when gathered.
//
// A table is two tensors of as many rows, codes and scales. What is requested is held until it is gathered, beside the
// cache's budget, so the bytes are the same for any budget and any request. Calls must not overlap.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <optional>
#include <vector>

#include "row_cache.h"
#include "row_reader.h"

// The rows of a tensor: in which file, from which byte on, each how long.
struct RowPart {
    uint32_t file, width;
    uint64_t start;
};

struct RowTable {
    RowPart codes, scales;
    int64_t num_rows;
};

// Rows that were asked for together: those of the cache are here, the `missing` ones arrive in `batch`.
struct RowRequest {
    std::vector<int64_t> rows;     // ascending
    std::vector<uint8_t> bytes;    // of each, codes and then scales
    std::vector<uint32_t> missing;  // which of them
    std::shared_ptr<RowBatch> batch;
};

// Why a row has no bytes: of its codes or its scales, as RowFailure says.
struct RowProblem {
    bool is_scales;
    int64_t row;
    int error;
};

class RowStore;

// Rows that somebody waits for, in the order asked for, repeats allowed.
class RowGathering {
   public:
    // Whether all are here or have failed; false when `seconds` passed before.
    bool wait(double seconds) const;
    // Whether any of them had to be read.
    bool has_read() const;
    // After `wait`: what could not be read, of the first request with such.
    std::optional<RowProblem> problem() const;
    // After `wait`, without a problem: a row read with a NaN among its codes or scales.
    std::optional<int64_t> nan_row() const;
    // After `wait`, without either: the rows' codes and scales, which from now on are kept.
    void copy_to(uint8_t* codes, uint8_t* scales);
    // What it took: reads and their bytes, whole blocks.
    size_t reads() const;
    size_t nbytes_read() const;

   private:
    friend class RowStore;
    void take_in(RowRequest& request);

    RowStore* store_;
    size_t table_;
    std::vector<int64_t> rows_;
    std::vector<RowRequest> requests_;
};

class RowStore {
   public:
    // Requests that nobody gathers: of a sequence that ended, or a forward that was interrupted.
    static constexpr size_t kMostForgotten = 4;

    // `nbytes` of memory for rows; all tables have the widths of the first.
    RowStore(size_t codes_width, size_t scales_width, uint64_t nbytes, uint64_t most_rows);

    // The number of a table.
    size_t add(const RowTable& table);
    const RowTable& table(size_t number) const { return tables_[number].table; }
    // Begin to read those of the rows that are neither in memory nor on their way. All must exist.
    void request(RowReader& reader, size_t table, std::vector<int64_t> rows);
    // The same, for who waits for them.
    RowGathering gather(RowReader& reader, size_t table, std::vector<int64_t> rows);

    // Distinct rows that were asked for, how many of them were in memory, and how often reading was begun.
    uint64_t rows() const { return rows_; }
    uint64_t hits() const { return hits_; }
    uint64_t readings() const { return readings_; }
    uint64_t cache_nbytes() const { return cache_.nbytes(); }
    size_t codes_width() const { return codes_width_; }
    size_t scales_width() const { return scales_width_; }
    size_t num_tables() const { return tables_.size(); }
    // Requests of a table that wait to be gathered.
    size_t waiting(size_t table) const { return tables_[table].requests.size(); }

   private:
    friend class RowGathering;
    struct Held {
        RowTable table;
        std::vector<RowRequest> requests;  // the newest last
    };
    // A key is the table's number above the row's.
    static int64_t key(size_t table, int64_t row) { return static_cast<int64_t>(table) << 40 | row; }

    size_t codes_width_, scales_width_;
    RowCache cache_;
    std::vector<Held> tables_;
    uint64_t rows_ = 0, hits_ = 0, readings_ = 0;
};
