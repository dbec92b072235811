// Python names of the page reader. Addresses and descriptors are those that `weights.expert_reader` keeps.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "binding.h"
#include "page_reader.h"

namespace {

// File, first byte, bytes, those of them that must come, address.
using ReadTuple = std::tuple<size_t, uint64_t, size_t, size_t, uintptr_t>;
// Address and bytes.
using ScalesTuple = std::tuple<uintptr_t, size_t>;
// Job, whether it holds a NaN scale, whether it failed: of which read, with which error number, after how many bytes.
using AnswerTuple = std::tuple<uint64_t, bool, bool, size_t, int, uint64_t>;

// A reader until it is closed. Its end waits for reads, which need no GIL.
struct Pages {
    explicit Pages(const PageReaderOptions& options)
        : disks(options.disks), reader(std::make_unique<PageReader>(options)) {}
    ~Pages() { close(); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    PageReader& open() {
        if (!reader) throw nb::value_error("the page reader is closed");
        if (reader->is_parents()) throw nb::value_error("the page reader belongs to the process that forked this one");
        return *reader;
    }

    // Of a reader that is closed or another process's, nothing is left to stop.
    void stop() {
        if (reader && !reader->is_parents()) reader->stop();
    }

    void close() {
        const Unlocked unlocked;
        reader.reset();
    }

    const size_t disks;
    std::vector<const PageFile*> files;
    std::unique_ptr<PageReader> reader;
};

size_t add_file(Pages& reader, int fd, bool direct, nb::bytes path, uint64_t device, uint64_t inode,
                uint64_t nbytes, int64_t mtime_ns) {
    reader.files.push_back(reader.open().add_file({fd, direct, path.c_str(), device, inode, nbytes, mtime_ns}));
    return reader.files.size() - 1;
}

uint64_t submit(Pages& reader, size_t disk, uint32_t urgency, const std::vector<ReadTuple>& tuples,
                const std::vector<ScalesTuple>& scales_tuples) {
    PageReader& open = reader.open();
    if (disk >= reader.disks || urgency >= kUrgencies || tuples.empty())
        throw nb::value_error("no such disk or urgency, or nothing to read");
    std::vector<PageRead> reads;
    reads.reserve(tuples.size());
    for (const auto& [file, start, nbytes, wanted, address] : tuples) {
        const bool is_sized = start <= INT64_MAX / 2 && nbytes <= INT64_MAX / 2 && wanted <= nbytes && wanted;
        if (!is_sized || file >= reader.files.size() || !address)
            throw nb::value_error("a read is empty or out of range");
        reads.push_back({reader.files[file], start, nbytes, wanted, at<uint8_t>(address)});
    }
    std::vector<PageScales> scales;
    for (const auto& [address, nbytes] : scales_tuples) scales.push_back({at<const uint8_t>(address), nbytes});
    return open.submit(disk, static_cast<Urgency>(urgency), std::move(reads), std::move(scales));
}

std::vector<AnswerTuple> take(Pages& reader, double seconds) {
    PageReader& open = reader.open();
    std::vector<PageAnswer> answers;
    {
        const Unlocked unlocked;
        answers = open.take(seconds);
    }
    std::vector<AnswerTuple> tuples;
    for (const PageAnswer& a : answers) tuples.emplace_back(a.job, a.has_nan, a.has_failed, a.read, a.error, a.filled);
    return tuples;
}

}  // namespace

void bind_page_reader(nb::module_& module) {
    nb::class_<Pages> reader(module, "PageReader", "Reads whole pages of files into given memory, most urgent first.");
    reader.def(
        "__init__",
        [](Pages* self, size_t disks, size_t depth, size_t threads, size_t piece, bool uring, uint64_t shuffle) {
            if (!depth || !threads || !piece || piece % kReadBlock) throw nb::value_error("nothing reads like that");
            new (self) Pages({disks, depth, threads, piece, uring, shuffle});
        },
        nb::arg("disks"), nb::arg("depth"), nb::arg("threads"), nb::arg("piece"), nb::arg("uring"), nb::arg("shuffle"));
    reader.def_prop_ro("kind", [](Pages& self) { return self.open().kind(); });
    reader.def("add_file", &add_file, nb::arg("fd"), nb::arg("direct"), nb::arg("path"), nb::arg("device"),
               nb::arg("inode"), nb::arg("nbytes"), nb::arg("mtime_ns"), "The number of a file, for `submit`.");
    reader.def("submit", &submit, nb::arg("disk"), nb::arg("urgency"), nb::arg("reads"),
               nb::arg("scales"), "The number of the job.");
    reader.def("hurry", [](Pages& self, uint64_t job) { self.open().hurry(job); }, nb::arg("job"));
    reader.def("withdraw", [](Pages& self, uint64_t job) { return self.open().withdraw(job); }, nb::arg("job"));
    reader.def("withdraw_last", [](Pages& self) { return self.open().withdraw_last(); });
    reader.def_prop_ro("is_idle", [](Pages& self) { return self.open().is_idle(); });
    reader.def("take", &take, nb::arg("seconds"), "(job, has NaN, failed, read, errno, bytes) of what is over.");
    reader.def("hold", [](Pages& self, bool held) { self.open().hold(held); }, nb::arg("held"));
    reader.def("stop", &Pages::stop);
    reader.def("close", &Pages::close);
}
