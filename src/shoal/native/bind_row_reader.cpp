// Python names of the row reader and of the store of rows. Addresses are those of tensors that
// `weights.engram_store` keeps alive.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <utility>

#include "binding.h"
#include "row_reader.h"
#include "row_store.h"

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

// A store with the reader that it reads by.
struct Store {
    std::shared_ptr<Reader> reader;
    RowStore rows;
};

using Rows = std::vector<int64_t>;
constexpr int64_t kMostRows = int64_t(1) << 40;

RowPart part_of(const Store& store, uint32_t file, uint64_t start, size_t width, int64_t num_rows) {
    if (file >= store.reader->files) throw nb::value_error("a table is in no known file");
    if (start > INT64_MAX / 2 || num_rows < 0 || num_rows > kMostRows) throw nb::value_error("a table is out of range");
    return {file, static_cast<uint32_t>(width), start};
}

size_t add_table(Store& store, std::pair<uint32_t, uint64_t> codes, std::pair<uint32_t, uint64_t> scales, int64_t rows) {
    const RowPart first = part_of(store, codes.first, codes.second, store.rows.codes_width(), rows);
    const RowPart second = part_of(store, scales.first, scales.second, store.rows.scales_width(), rows);
    return store.rows.add({first, second, rows});
}

// IndexError with the first row that is not in the table.
void check_rows(const Store& store, size_t table, const Rows& rows) {
    if (table >= store.rows.num_tables()) throw nb::value_error("there is no such table");
    const int64_t count = store.rows.table(table).num_rows;
    for (const int64_t row : rows)
        if (row < 0 || row >= count) throw nb::index_error(std::to_string(row).c_str());
}

void request(Store& store, size_t table, Rows rows) {
    check_rows(store, table, rows);
    RowReader& reader = store.reader->open();
    const Unlocked unlocked;
    store.rows.request(reader, table, std::move(rows));
}

RowGathering gather(Store& store, size_t table, uintptr_t rows, size_t count) {
    Rows wanted(at<const int64_t>(rows), at<const int64_t>(rows) + count);
    check_rows(store, table, wanted);
    RowReader& reader = store.reader->open();
    const Unlocked unlocked;
    return store.rows.gather(reader, table, std::move(wanted));
}

bool wait(const RowGathering& gathering, double seconds) {
    const Unlocked unlocked;
    return gathering.wait(seconds);
}

void must_be_through(const RowGathering& gathering) {
    if (!gathering.wait(0)) throw nb::value_error("the rows are not all here yet");
}

std::optional<std::tuple<bool, int64_t, int>> problem(const RowGathering& gathering) {
    must_be_through(gathering);
    const std::optional<RowProblem> found = gathering.problem();
    if (!found) return std::nullopt;
    return std::tuple(found->is_scales, found->row, found->error);
}

std::optional<int64_t> nan_row(const RowGathering& gathering) {
    if (problem(gathering)) throw nb::value_error("rows could not be read");
    const Unlocked unlocked;
    return gathering.nan_row();
}

void copy_to(RowGathering& gathering, uintptr_t codes, uintptr_t scales) {
    if (problem(gathering)) throw nb::value_error("rows could not be read");
    const Unlocked unlocked;
    gathering.copy_to(at<uint8_t>(codes), at<uint8_t>(scales));
}

void bind_gathering(nb::module_& module) {
    nb::class_<RowGathering>(module, "RowGathering", "Rows that somebody waits for.")
        .def("wait", &wait, nb::arg("seconds"), "Whether all are through, after at most so long.")
        .def("problem", &problem, "(of the scales, row, errno) of what could not be read; 0: its file ended before.")
        .def("nan_row", &nan_row, "A row that was read with a NaN.")
        .def("copy_to", &copy_to, nb::arg("codes"), nb::arg("scales"), "All rows, which the store keeps from now on.")
        .def_prop_ro("has_read", &RowGathering::has_read)
        .def_prop_ro("reads", &RowGathering::reads)
        .def_prop_ro("nbytes_read", &RowGathering::nbytes_read);
}

void bind_store(nb::module_& module) {
    nb::class_<Store> store(module, "RowStore", "Rows of tables: kept, or read by a RowReader.");
    store.def(
        "__init__",
        [](Store* self, std::shared_ptr<Reader> reader, size_t codes_width, size_t scales_width, uint64_t nbytes,
           uint64_t most_rows) {
            for (const size_t width : {codes_width, scales_width})
                if (width < 1 || width > RowReader::kMostSpanNbytes) throw nb::value_error("a row is empty or too long");
            RowStore rows(codes_width, scales_width, nbytes, most_rows);
            new (self) Store{std::move(reader), std::move(rows)};
        },
        nb::arg("reader"), nb::arg("codes_width"), nb::arg("scales_width"), nb::arg("nbytes"), nb::arg("most_rows"));
    store.def("add", &add_table, nb::arg("codes"), nb::arg("scales"), nb::arg("num_rows"),
              "The number of a table whose parts are (file, first byte).");
    store.def("request", &request, nb::arg("table"), nb::arg("rows"), "Begin to read what is not here.");
    store.def("gather", &gather, nb::arg("table"), nb::arg("rows"), nb::arg("count"), nb::keep_alive<0, 1>());
    store.def("waiting", [](const Store& self, size_t table) { return self.rows.waiting(table); }, nb::arg("table"));
    store.def_prop_ro("rows", [](const Store& self) { return self.rows.rows(); });
    store.def_prop_ro("hits", [](const Store& self) { return self.rows.hits(); });
    store.def_prop_ro("readings", [](const Store& self) { return self.rows.readings(); });
    store.def_prop_ro("cache_nbytes", [](const Store& self) { return self.rows.cache_nbytes(); });
}

}  // namespace

void bind_row_reader(nb::module_& module) {
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
    reader.def("close", &Reader::close);
    bind_gathering(module);
    bind_store(module);
    module.attr("MOST_ROW_NBYTES") = RowReader::kMostSpanNbytes;
    module.attr("MOST_FORGOTTEN") = RowStore::kMostForgotten;
}
