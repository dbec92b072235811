// Requests by table, their rows ascending; a row that is on its way is never read a second time.
#include "row_store.h"

#include <string.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace {

constexpr uint8_t kE4m3Nan = 0x7f, kE8m0Nan = 0xff;

// Where `row` stands in ascending rows; their number where it does not.
size_t place_in(const std::vector<int64_t>& rows, int64_t row) {
    const auto found = std::lower_bound(rows.begin(), rows.end(), row);
    return found != rows.end() && *found == row ? found - rows.begin() : rows.size();
}

bool holds_any(const RowRequest& request, const std::vector<int64_t>& rows) {
    return std::any_of(rows.begin(), rows.end(), [&](int64_t row) {
        return place_in(request.rows, row) < request.rows.size();
    });
}

bool has_nan(const uint8_t* codes, size_t num_codes, const uint8_t* scales, size_t num_scales) {
    uint8_t found = 0;  // no early end: it becomes vector operations
    for (size_t i = 0; i < num_codes; ++i) found |= (codes[i] & kE4m3Nan) == kE4m3Nan;
    for (size_t i = 0; i < num_scales; ++i) found |= scales[i] == kE8m0Nan;
    return found;
}

}  // namespace

RowStore::RowStore(size_t codes_width, size_t scales_width, uint64_t nbytes, uint64_t most_rows)
    : codes_width_(codes_width), scales_width_(scales_width), cache_(codes_width + scales_width, nbytes, most_rows) {}

size_t RowStore::add(const RowTable& table) {
    tables_.push_back({table, {}});
    return tables_.size() - 1;
}

void RowStore::request(RowReader& reader, size_t table, std::vector<int64_t> rows) {
    Held& held = tables_[table];
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (const RowRequest& earlier : held.requests)
        rows.erase(std::remove_if(rows.begin(), rows.end(),
                                  [&](int64_t row) { return place_in(earlier.rows, row) < earlier.rows.size(); }),
                   rows.end());
    if (rows.empty()) return;
    RowRequest request{std::move(rows), {}, {}, nullptr};
    const size_t width = codes_width_ + scales_width_;
    request.bytes.resize(request.rows.size() * width);
    cache_.tick();
    for (size_t i = 0; i < request.rows.size(); ++i)
        if (const uint8_t* kept = cache_.find(key(table, request.rows[i])))
            memcpy(&request.bytes[i * width], kept, width);
        else
            request.missing.push_back(static_cast<uint32_t>(i));
    if (!request.missing.empty()) {
        std::vector<RowSpan> spans;
        spans.reserve(2 * request.missing.size());
        for (const RowPart& part : {held.table.codes, held.table.scales})
            for (const uint32_t place : request.missing)
                spans.push_back({part.file, part.width, part.start + request.rows[place] * part.width});
        request.batch = reader.submit(spans);
        ++readings_;
    }
    rows_ += request.rows.size();
    hits_ += request.rows.size() - request.missing.size();
    held.requests.push_back(std::move(request));
}

RowGathering RowStore::gather(RowReader& reader, size_t table, std::vector<int64_t> rows) {
    request(reader, table, rows);
    RowGathering gathering;
    gathering.store_ = this;
    gathering.table_ = table;
    // They leave before they are known to be good: what could not be read is read again when it is asked for again.
    std::vector<RowRequest>& requests = tables_[table].requests;
    const auto taken = std::stable_partition(requests.begin(), requests.end(),
                                             [&](const RowRequest& request) { return !holds_any(request, rows); });
    std::move(taken, requests.end(), std::back_inserter(gathering.requests_));
    requests.erase(taken, requests.end());
    if (requests.size() > kMostForgotten) requests.erase(requests.begin(), requests.end() - kMostForgotten);
    gathering.rows_ = std::move(rows);
    return gathering;
}

bool RowGathering::wait(double seconds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (const RowRequest& request : requests_) {
        const std::chrono::duration<double> left = end - std::chrono::steady_clock::now();
        if (request.batch && !request.batch->wait(std::max(0.0, left.count()))) return false;
    }
    return true;
}

bool RowGathering::has_read() const {
    return std::any_of(requests_.begin(), requests_.end(), [](const RowRequest& request) { return !!request.batch; });
}

std::optional<RowProblem> RowGathering::problem() const {
    for (const RowRequest& request : requests_) {
        const RowFailure* failure = request.batch ? request.batch->failure() : nullptr;
        if (!failure) continue;
        const size_t count = request.missing.size();
        const uint32_t place = request.missing[failure->span % count];
        return RowProblem{failure->span >= count, request.rows[place], failure->error};
    }
    return std::nullopt;
}

std::optional<int64_t> RowGathering::nan_row() const {
    const size_t num_codes = store_->codes_width_, num_scales = store_->scales_width_;
    for (const RowRequest& request : requests_) {
        const size_t count = request.missing.size();
        for (size_t i = 0; i < count; ++i) {
            const uint8_t* codes = request.batch->bytes() + i * num_codes;
            const uint8_t* scales = request.batch->bytes() + count * num_codes + i * num_scales;
            if (has_nan(codes, num_codes, scales, num_scales)) return request.rows[request.missing[i]];
        }
    }
    return std::nullopt;
}

void RowGathering::copy_to(uint8_t* codes, uint8_t* scales) {
    for (RowRequest& request : requests_) take_in(request);
    const size_t num_codes = store_->codes_width_, num_scales = store_->scales_width_, width = num_codes + num_scales;
    for (size_t i = 0; i < rows_.size(); ++i)
        for (const RowRequest& request : requests_) {
            const size_t place = place_in(request.rows, rows_[i]);
            if (place == request.rows.size()) continue;
            const uint8_t* row = &request.bytes[place * width];
            memcpy(codes + i * num_codes, row, num_codes);
            memcpy(scales + i * num_scales, row + num_codes, num_scales);
            break;
        }
}

// What has arrived goes to its places in the request, and into the cache.
void RowGathering::take_in(RowRequest& request) {
    const size_t num_codes = store_->codes_width_, num_scales = store_->scales_width_, width = num_codes + num_scales;
    const size_t count = request.missing.size();
    RowCache& cache = store_->cache_;
    cache.tick();
    for (size_t i = 0; i < count; ++i) {
        uint8_t* row = &request.bytes[request.missing[i] * width];
        memcpy(row, request.batch->bytes() + i * num_codes, num_codes);
        memcpy(row + num_codes, request.batch->bytes() + count * num_codes + i * num_scales, num_scales);
        const int64_t key = RowStore::key(table_, request.rows[request.missing[i]]);
        if (cache.find(key)) continue;
        if (uint8_t* place = cache.place_of(key)) memcpy(place, row, width);
    }
}

size_t RowGathering::reads() const {
    size_t sum = 0;
    for (const RowRequest& request : requests_) sum += request.batch ? request.batch->reads() : 0;
    return sum;
}

size_t RowGathering::nbytes_read() const {
    size_t sum = 0;
    for (const RowRequest& request : requests_) sum += request.batch ? request.batch->nbytes_read() : 0;
    return sum;
}
