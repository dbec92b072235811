// An io_uring by raw system calls: reads go in, answers come out. For one thread at a time.
#pragma once

#include <stdint.h>

#include <memory>

class Ring {
   public:
    // A ring for `entries` reads at once (rounded up to a power of two), or nothing and in `error` what the system said:
    // ENOSYS where it has no such calls or is too old for plain reads, EPERM where a sandbox forbids them.
    static std::unique_ptr<Ring> create(uint32_t entries, int& error);
    ~Ring();
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    // Prepares a read; `enter` begins it. At most `entries` are prepared or under way.
    void push_read(int fd, void* memory, uint32_t nbytes, uint64_t offset, uint64_t tag);
    // Begins what is prepared and waits until an answer is there (or, for 0, does not); an error number, or 0.
    int enter(uint32_t wanted);
    // The next answer: bytes read or a negative error number.
    bool next_answer(uint64_t& tag, int32_t& result);
    // The system keeps what it has of the ring for good.
    void abandon();

   private:
    Ring() = default;
    struct Mapped;
    Mapped* mapped_ = nullptr;
};
