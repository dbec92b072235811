// Python names of the row reader. Addresses are those of arrays that `weights.row_reader` keeps alive.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>
#include <utility>

#include "binding.h"
#include "row_reader.h"

namespace {

// A reader until it is closed. Its end waits for reads, which need no GIL.
struct Reader {
    explicit Reader(const RowReaderOptions& options) : reader(std::make_unique<RowReader>(options)) {}
    ~Reader() { close(); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    RowReader& open() {
        if (!reader) throw nb::value_error("the row reader is closed");
        if (reader->is_parents()) throw nb::value_error("the row reader belongs to the process that forked this one");
        return *reader;
    }

    void close() {
        const Unlocked unlocked;
        reader.reset();
    }

    std::unique_ptr<RowReader> reader;
    size_t files = 0;
};

uint32_t add_file(Reader& reader, int fd, bool direct) {
    const uint32_t number = reader.open().add_file(fd, direct);
    reader.files = number + 1;
    return number;
}

std::shared_ptr<RowBatch> submit(Reader& reader, uintptr_t files, uintptr_t starts, uintptr_t nbytes, size_t count) {
    RowReader& open = reader.open();
    std::vector<RowSpan> spans(count);
    for (size_t i = 0; i < count; ++i) {
        const int64_t start = at<const int64_t>(starts)[i];
        spans[i] = {at<const uint32_t>(files)[i], at<const uint32_t>(nbytes)[i], static_cast<uint64_t>(start)};
        if (spans[i].file >= reader.files) throw nb::value_error("a span is of no known file");
        if (spans[i].nbytes < 1 || spans[i].nbytes > RowReader::kMostSpanNbytes || start < 0 || start > INT64_MAX / 2)
            throw nb::value_error("a span is empty, too long or out of range");
    }
    const Unlocked unlocked;
    return open.submit(spans);
}

bool wait(const RowBatch& batch, double seconds) {
    const Unlocked unlocked;
    return batch.wait(seconds);
}

std::optional<std::pair<size_t, int>> failure(const RowBatch& batch) {
    if (!batch.wait(0)) throw nb::value_error("the batch is not through yet");
    const RowFailure* failed = batch.failure();
    if (!failed) return std::nullopt;
    return std::pair(failed->span, failed->error);
}

void copy_to(const RowBatch& batch, uintptr_t bytes) {
    if (failure(batch)) throw nb::value_error("the batch has failed");
    batch.copy_to(at<uint8_t>(bytes));
}

}  // namespace

void bind_row_reader(nb::module_& module) {
    nb::class_<RowBatch>(module, "RowBatch", "Reads that were submitted together.")
        .def("wait", &wait, nb::arg("seconds"), "Whether all are through, after at most so long.")
        .def("failure", &failure, "(span, errno) of the first span that could not be read; 0: its file ended before.")
        .def("copy_to", &copy_to, nb::arg("bytes"))
        .def_prop_ro("reads", &RowBatch::reads)
        .def_prop_ro("nbytes_read", &RowBatch::nbytes_read);
    nb::class_<Reader> reader(module, "RowReader", "Reads many small spans of files at once.");
    reader.def(
        "__init__",
        [](Reader* self, bool uring, size_t depth, size_t threads, uint64_t shuffle) {
            new (self) Reader({.depth = depth, .threads = threads, .uring = uring, .shuffle = shuffle});
        },
        nb::arg("uring"), nb::arg("depth"), nb::arg("threads"), nb::arg("shuffle"));
    reader.def_prop_ro("kind", [](Reader& self) { return self.open().kind(); });
    reader.def_prop_ro("refusal", [](Reader& self) { return self.open().refusal(); });
    reader.def("add_file", &add_file, nb::arg("fd"), nb::arg("direct"));
    reader.def("submit", &submit, nb::arg("files"), nb::arg("starts"), nb::arg("nbytes"), nb::arg("count"));
    reader.def("close", &Reader::close);
    module.attr("MOST_ROW_NBYTES") = RowReader::kMostSpanNbytes;
}
