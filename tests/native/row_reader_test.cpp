// Drives the row reader and the store of rows: `row_reader_test rows | errors | ends | store`, each with io_uring (where there is one) and threads.
//
// What does not hold is a line on stderr and exit code 1.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "row_reader.h"
#include "row_store.h"

namespace {

constexpr size_t kFileNbytes = 300007;
constexpr double kSeconds = 20;

void check(bool holds, const char* fact) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", fact);
    _exit(1);
}

uint8_t byte_at(uint64_t offset) { return static_cast<uint8_t>(offset * 2654435761u >> 13); }

// A file of known bytes that has no name any more; a descriptor of its own for each reader.
std::string write_file() {
    std::string path = "/tmp/row_reader_test.XXXXXX";
    const int fd = mkstemp(path.data());
    check(fd >= 0, "a file can be made");
    std::vector<uint8_t> bytes(kFileNbytes);
    for (size_t i = 0; i < kFileNbytes; ++i) bytes[i] = byte_at(i);
    check(write(fd, bytes.data(), kFileNbytes) == static_cast<ssize_t>(kFileNbytes), "a file can be written");
    close(fd);
    return path;
}

struct Opened {
    std::unique_ptr<RowReader> reader;
    uint32_t file;
};

Opened open_reader(const std::string& path, bool uring, uint64_t shuffle = 0) {
    auto reader = std::make_unique<RowReader>(RowReaderOptions{.depth = 8, .threads = 4, .uring = uring, .shuffle = shuffle});
    int fd = open(path.c_str(), O_RDONLY | O_DIRECT);
    const bool direct = fd >= 0;
    if (!direct) fd = open(path.c_str(), O_RDONLY);
    const uint32_t file = reader->add_file(fd, direct);
    return {std::move(reader), file};
}

std::vector<RowSpan> draw(unsigned seed, uint32_t file, size_t count) {
    std::vector<RowSpan> spans;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t nbytes = 1 + rand_r(&seed) % (i % 50 ? 300 : RowReader::kMostSpanNbytes);
        const uint64_t start = i % 10 ? rand_r(&seed) % (kFileNbytes - nbytes) : kFileNbytes - nbytes;
        spans.push_back({file, nbytes, start});
    }
    return spans;
}

void check_bytes(const RowBatch& batch, const std::vector<RowSpan>& spans) {
    check(batch.wait(kSeconds), "a batch ends");
    check(!batch.failure(), "rows of a whole file are read");
    const uint8_t* next = batch.bytes();
    for (const RowSpan& span : spans)
        for (uint32_t i = 0; i < span.nbytes; ++i) check(*next++ == byte_at(span.start + i), "a row has the file's bytes");
}

// Several callers, batches waited for out of order, and some forgotten.
void rows(const std::string& path, bool uring) {
    const Opened opened = open_reader(path, uring, 5);
    std::vector<std::thread> callers;
    for (unsigned caller = 0; caller < 3; ++caller)
        callers.emplace_back([&opened, caller] {
            for (unsigned round = 0; round < 6; ++round) {
                const unsigned seed = 100 * caller + round;
                const auto first = draw(seed, opened.file, 1 + 90 * round), second = draw(seed + 50, opened.file, 40);
                const auto batch = opened.reader->submit(first), other = opened.reader->submit(second);
                opened.reader->submit(first);
                check_bytes(*other, second);
                check_bytes(*batch, first);
            }
        });
    for (std::thread& caller : callers) caller.join();
    check_bytes(*opened.reader->submit({}), {});
}

void errors(const std::string& path, bool uring) {
    const Opened opened = open_reader(path, uring);
    auto spans = draw(3, opened.file, 60);
    spans[33] = {opened.file, 100, kFileNbytes - 99};
    spans[44] = {opened.file, 5, kFileNbytes + 70000};
    const auto ended = opened.reader->submit(spans);
    check(ended->wait(kSeconds) && ended->failure(), "a row beyond the end fails");
    check(ended->failure()->span == 33 && ended->failure()->error == RowFailure::kEnded, "the first one is named");
    // A directory can be opened, and not read.
    const uint32_t directory = opened.reader->add_file(open("/tmp", O_RDONLY), false);
    spans[20].file = directory;
    const auto refused = opened.reader->submit(spans);
    check(refused->wait(kSeconds) && refused->failure(), "what cannot be read fails");
    check(refused->failure()->span == 20 && refused->failure()->error == EISDIR, "the system's answer is kept");
    spans.resize(20);
    check_bytes(*opened.reader->submit(spans), spans);
}

// Readers that go while batches are under way; batches that outlive them; a child that has none of the threads.
void ends(const std::string& path, bool uring) {
    for (unsigned life = 0; life < 20; ++life) {
        Opened opened = open_reader(path, uring);
        std::vector<std::shared_ptr<RowBatch>> batches;
        for (unsigned i = 0; i < life; ++i) batches.push_back(opened.reader->submit(draw(i, opened.file, 200)));
        opened.reader.reset();
        for (const auto& batch : batches) {
            check(batch->wait(kSeconds), "a batch ends with its reader");
            if (batch->failure()) check(batch->failure()->error == ECANCELED, "what was not read says why");
        }
    }
    Opened opened = open_reader(path, uring);
    const auto spans = draw(9, opened.file, 300);
    const auto batch = opened.reader->submit(spans);
    const pid_t child = fork();
    if (child == 0) {
        check(opened.reader->is_parents(), "a child knows that it is one");
        opened.reader.reset();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child of a fork ends");
    check_bytes(*batch, spans);
}

// Two tables in a store of little memory: requested, forgotten, gathered with repeats. The last rows' scales lie beyond
// the end of the file.
void store(const std::string& path, bool uring) {
    constexpr uint32_t kCodes = 33, kScales = 3;
    constexpr int64_t kRows = 4000, kWhole = (kFileNbytes - 292000) / kScales;
    const Opened opened = open_reader(path, uring, 3);
    RowReader& reader = *opened.reader;
    RowStore rows(kCodes, kScales, 60 * (kCodes + kScales + RowCache::kPlaceNbytes), 2 * kRows);
    const RowTable tables[] = {{{opened.file, kCodes, 100}, {opened.file, kScales, 140000}, kRows},
                               {{opened.file, kCodes, 160000}, {opened.file, kScales, 292000}, kRows}};
    for (const RowTable& table : tables) rows.add(table);
    for (unsigned round = 0; round < 60; ++round) {
        unsigned seed = round;
        const size_t number = round % 2;
        std::vector<int64_t> wanted(1 + round * 3), early;
        for (int64_t& row : wanted) row = rand_r(&seed) % (round % 3 ? kWhole : 50);
        for (size_t i = 0; i < wanted.size(); i += 2) early.push_back(wanted[i]);
        rows.request(reader, number, early);
        rows.request(reader, number, {rand_r(&seed) % kWhole});
        RowGathering gathering = rows.gather(reader, number, wanted);
        check(gathering.wait(kSeconds) && !gathering.problem(), "rows of a whole file are gathered");
        gathering.nan_row();
        std::vector<uint8_t> codes(wanted.size() * kCodes), scales(wanted.size() * kScales);
        gathering.copy_to(codes.data(), scales.data());
        for (size_t i = 0; i < wanted.size(); ++i) {
            for (uint32_t j = 0; j < kCodes; ++j)
                check(codes[i * kCodes + j] == byte_at(tables[number].codes.start + wanted[i] * kCodes + j), "codes");
            for (uint32_t j = 0; j < kScales; ++j)
                check(scales[i * kScales + j] == byte_at(tables[number].scales.start + wanted[i] * kScales + j), "scales");
        }
        check(rows.waiting(number) <= RowStore::kMostForgotten, "what nobody gathers is forgotten");
    }
    check(rows.hits() > 0 && rows.hits() < rows.rows(), "some rows were kept, not all");
    const RowGathering gathering = rows.gather(reader, 1, {5, kWhole, kRows - 1});
    check(gathering.wait(kSeconds) && gathering.problem(), "a row beyond the end is a problem");
    const RowProblem problem = *gathering.problem();
    check(problem.is_scales && problem.row == kWhole && problem.error == RowFailure::kEnded, "the first one is named");
}

}  // namespace

int main(int, char** arguments) {
    const std::string what = arguments[1] ? arguments[1] : "", path = write_file();
    for (const bool uring : {true, false}) {
        if (what == "rows") rows(path, uring);
        else if (what == "errors") errors(path, uring);
        else if (what == "ends") ends(path, uring);
        else if (what == "store") store(path, uring);
        else return fprintf(stderr, "row_reader_test rows | errors | ends | store\n"), 2;
    }
    unlink(path.c_str());
    return 0;
}
