// Drives the page reader: `page_reader_test`, with io_uring (where there is one) and threads.
//
// What does not hold is a line on stderr and exit code 1.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "page_reader.h"

namespace {

constexpr size_t kPage = 4096, kPages = 64, kJobs = 300, kRoom = 5 * kPage;
constexpr double kSeconds = 20;

void check(bool holds, const char* fact) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", fact);
    _exit(1);
}

uint8_t byte_at(uint64_t offset) { return static_cast<uint8_t>((offset * 2654435761u >> 13) % 255); }

struct File {
    File() {
        path = "/tmp/page_reader_test.XXXXXX";
        fd = mkstemp(path.data());
        std::vector<uint8_t> bytes(kPages * kPage - 100);
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i);
        check(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a file can be written");
    }
    ~File() {
        close(fd);
        unlink(path.c_str());
    }
    PageFile known() const {
        struct stat s;
        check(stat(path.c_str(), &s) == 0, "a file has a state");
        const int64_t mtime = s.st_mtim.tv_sec * INT64_C(1000000000) + s.st_mtim.tv_nsec;
        return {fd, false, path, s.st_dev, s.st_ino, static_cast<uint64_t>(s.st_size), mtime};
    }
    std::string path;
    int fd;
};

struct Room {
    Room() : bytes(static_cast<uint8_t*>(aligned_alloc(kPage, kRoom))) {}
    ~Room() { free(bytes); }
    Room(const Room&) = delete;
    uint8_t* bytes;
    uint64_t start = 0;
    size_t nbytes = 0;
};

// Jobs of two reads each on two disks, some hurried; another thread takes what is over.
void jobs(bool uring) {
    const File file;
    PageReader reader({.disks = 2, .depth = 4, .threads = 3, .piece = kPage, .uring = uring, .shuffle = 7});
    const PageFile* known = reader.add_file(file.known());
    std::vector<Room> rooms(kJobs + 1);
    std::vector<bool> over(kJobs + 1);
    std::mt19937 random(1);
    std::thread taker([&] {
        for (size_t left = kJobs; left;)
            for (const PageAnswer& answer : reader.take(kSeconds)) {
                const Room& room = rooms[answer.job];
                check(!answer.has_failed && !answer.has_nan, "a whole file is read");
                for (size_t i = 0; i < room.nbytes; ++i)
                    check(room.bytes[i] == byte_at(room.start + i), "the bytes are the file's");
                check(!over[answer.job], "a job is over once");
                over[answer.job] = true;
                --left;
            }
    });
    for (uint64_t job = 1; job <= kJobs; ++job) {
        Room& room = rooms[job];
        const size_t pages = 2 + random() % 3;
        room.start = random() % (kPages - pages - 1) * kPage;
        room.nbytes = pages * kPage;
        const size_t first = (1 + random() % (pages - 1)) * kPage, rest = room.nbytes - first;
        const auto urgency = static_cast<Urgency>(random() % kUrgencies);
        check(reader.submit(random() % 2, urgency, {{known, room.start, first, first, room.bytes},
                                                    {known, room.start + first, rest, rest - 50, room.bytes + first}},
                            {{room.bytes, room.nbytes}}) == job, "jobs are numbered");
        if (random() % 4 == 0) reader.hurry(1 + random() % job);
    }
    taker.join();
    check(reader.is_idle() && !reader.withdraw(1) && !reader.withdraw_last(), "nothing is left");
}

// A reader that ends while jobs wait and are under way.
void ends(bool uring) {
    const File file;
    std::vector<Room> rooms(8);
    for (int round = 0; round < 20; ++round) {
        PageReader reader({.depth = 2, .threads = 2, .piece = kPage, .uring = uring});
        const PageFile* known = reader.add_file(file.known());
        for (Room& room : rooms) reader.submit(0, Urgency::demand, {{known, 0, kRoom, kRoom, room.bytes}}, {});
        if (round % 2) reader.stop();
        check(reader.withdraw_last() == 0, "a demand is not taken back for another");
    }
}

void changes(bool uring) {
    const File file;
    Room room;
    PageReader reader({.uring = uring});
    PageFile other = file.known();
    other.mtime_ns += 1;
    const PageFile *known = reader.add_file(file.known()), *changed = reader.add_file(other);
    const auto ask = [&](std::vector<PageRead> reads) {
        reader.submit(0, Urgency::demand, std::move(reads), {});
        const std::vector<PageAnswer> answers = reader.take(kSeconds);
        check(answers.size() == 1, "one job is over");
        return answers[0];
    };
    check(!ask({{known, 0, kPage, kPage, room.bytes}}).has_failed, "what is there is read");
    PageAnswer answer = ask({{known, 0, kPage, kPage, room.bytes}, {changed, 0, kPage, kPage, room.bytes + kPage}});
    check(answer.has_failed && answer.error == ESTALE && answer.read == 1, "a file that changed is told");
    answer = ask({{known, (kPages - 1) * kPage, kPage, kPage, room.bytes}});
    check(answer.has_failed && answer.error == 0 && answer.filled == kPage - 100, "the end of a file is told");
    answer = ask({{known, 2 * kPages * kPage, kRoom, kRoom, room.bytes}});
    check(answer.has_failed && answer.error == 0 && answer.filled == 0, "what is beyond the end is told");
}

}  // namespace

int main() {
    for (const bool uring : {true, false}) {
        jobs(uring);
        ends(uring);
        changes(uring);
    }
    return 0;
}
