// An io_uring by raw system calls. See ring.h; the protocol is that of io_uring(7).
#include "ring.h"

#include <errno.h>

#if defined(__linux__) && __has_include(<linux/io_uring.h>)

#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace {

// The kernel's numbers, the same on every architecture.
constexpr long kSetup = 425, kEnter = 426, kRegister = 427;
constexpr uint32_t kWantedFeatures = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP;
constexpr int kMostPauses = 10000;
constexpr timespec kPause = {0, 1000000};

// Plain reads came with the call that asks for them (Linux 5.6).
bool has_plain_reads(int fd) {
    constexpr unsigned kOperations = IORING_OP_READ + 1;
    alignas(io_uring_probe) char memory[sizeof(io_uring_probe) + kOperations * sizeof(io_uring_probe_op)] = {};
    auto* probe = reinterpret_cast<io_uring_probe*>(memory);
    if (syscall(kRegister, fd, IORING_REGISTER_PROBE, probe, kOperations) < 0) return false;
    return probe->last_op >= IORING_OP_READ && (probe->ops[IORING_OP_READ].flags & IO_URING_OP_SUPPORTED);
}

template <typename T>
T* member(void* base, uint32_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(base) + offset);
}

}  // namespace

struct Ring::Mapped {
    int fd = -1;
    void* rings = MAP_FAILED;
    void* entries_memory = MAP_FAILED;
    size_t rings_nbytes = 0, entries_nbytes = 0;
    uint32_t unsubmitted = 0;
    uint32_t *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    io_uring_sqe* entries;
    io_uring_cqe* answers;

    ~Mapped() {
        if (entries_memory != MAP_FAILED) munmap(entries_memory, entries_nbytes);
        if (rings != MAP_FAILED) munmap(rings, rings_nbytes);
        if (fd >= 0) close(fd);
    }

    // 0, or an error number.
    int open(uint32_t wanted) {
        io_uring_params made{};
        fd = static_cast<int>(syscall(kSetup, wanted, &made));
        if (fd < 0) return errno;
        if ((made.features & kWantedFeatures) != kWantedFeatures || !has_plain_reads(fd)) return ENOSYS;
        rings_nbytes = std::max<size_t>(made.sq_off.array + made.sq_entries * sizeof(uint32_t),
                                        made.cq_off.cqes + made.cq_entries * sizeof(io_uring_cqe));
        entries_nbytes = made.sq_entries * sizeof(io_uring_sqe);
        const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
        rings = mmap(nullptr, rings_nbytes, protection, flags, fd, IORING_OFF_SQ_RING);
        if (rings == MAP_FAILED) return errno;
        entries_memory = mmap(nullptr, entries_nbytes, protection, flags, fd, IORING_OFF_SQES);
        if (entries_memory == MAP_FAILED) return errno;
        sq_tail = member<uint32_t>(rings, made.sq_off.tail);
        sq_mask = member<uint32_t>(rings, made.sq_off.ring_mask);
        sq_array = member<uint32_t>(rings, made.sq_off.array);
        cq_head = member<uint32_t>(rings, made.cq_off.head);
        cq_tail = member<uint32_t>(rings, made.cq_off.tail);
        cq_mask = member<uint32_t>(rings, made.cq_off.ring_mask);
        answers = member<io_uring_cqe>(rings, made.cq_off.cqes);
        entries = static_cast<io_uring_sqe*>(entries_memory);
        return 0;
    }
};

std::unique_ptr<Ring> Ring::create(uint32_t entries, int& error) {
    std::unique_ptr<Ring> ring(new Ring);
    ring->mapped_ = new Mapped;
    error = ring->mapped_->open(entries);
    return error ? nullptr : std::move(ring);
}

Ring::~Ring() { delete mapped_; }

void Ring::push_read(int fd, void* memory, uint32_t nbytes, uint64_t offset, uint64_t tag) {
    const uint32_t tail = *mapped_->sq_tail, index = tail & *mapped_->sq_mask;
    io_uring_sqe& entry = mapped_->entries[index];
    memset(&entry, 0, sizeof entry);
    entry.opcode = IORING_OP_READ;
    entry.fd = fd;
    entry.addr = reinterpret_cast<uintptr_t>(memory);
    entry.len = nbytes;
    entry.off = offset;
    entry.user_data = tag;
    mapped_->sq_array[index] = index;
    __atomic_store_n(mapped_->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ++mapped_->unsubmitted;
}

int Ring::enter(uint32_t wanted) {
    for (int pauses = 0;;) {
        const unsigned flags = wanted ? IORING_ENTER_GETEVENTS : 0;
        const long begun = syscall(kEnter, mapped_->fd, mapped_->unsubmitted, wanted, flags, nullptr, 0);
        if (begun >= 0) {
            mapped_->unsubmitted -= static_cast<uint32_t>(begun);
            return 0;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EBUSY) return errno;
        // The kernel lacks memory for a moment, or wants its answers taken.
        if (__atomic_load_n(mapped_->cq_tail, __ATOMIC_ACQUIRE) != *mapped_->cq_head) return 0;
        if (++pauses > kMostPauses) return EAGAIN;
        nanosleep(&kPause, nullptr);
    }
}

bool Ring::next_answer(uint64_t& tag, int32_t& result) {
    const uint32_t head = *mapped_->cq_head;
    if (head == __atomic_load_n(mapped_->cq_tail, __ATOMIC_ACQUIRE)) return false;
    const io_uring_cqe& answer = mapped_->answers[head & *mapped_->cq_mask];
    tag = answer.user_data;
    result = answer.res;
    __atomic_store_n(mapped_->cq_head, head + 1, __ATOMIC_RELEASE);
    return true;
}

void Ring::abandon() { mapped_ = nullptr; }

#else

std::unique_ptr<Ring> Ring::create(uint32_t, int& error) {
    error = ENOSYS;
    return nullptr;
}
Ring::~Ring() = default;
void Ring::push_read(int, void*, uint32_t, uint64_t, uint64_t) {}
int Ring::enter(uint32_t) { return ENOSYS; }
bool Ring::next_answer(uint64_t&, int32_t&) { return false; }
void Ring::abandon() {}

#endif
