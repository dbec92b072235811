// The jobs of a disk, cut into pieces by urgency, and the answers of all disks. See page_reader.h.
#pragma once

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "page_reader.h"

namespace page_queue {

// Eight bytes at a time: of their complement, a byte that is 0 borrows from its neighbour.
inline bool holds_255(const PageScales& scales) {
    constexpr uint64_t kOnes = 0x0101010101010101, kTops = 0x8080808080808080;
    uint64_t zeros = 0;
    size_t i = 0;
    // Without an early end, four at once: at the speed of memory.
    for (; i + 32 <= scales.nbytes; i += 32) {
        uint64_t words[4];
        memcpy(words, scales.bytes + i, sizeof words);
        for (uint64_t& word : words) {
            word = ~word;
            zeros |= (word - kOnes) & ~word;
        }
    }
    bool found = zeros & kTops;
    for (; i < scales.nbytes; ++i) found |= scales.bytes[i] == 255;
    return found;
}

struct Job {
    uint64_t id;
    Urgency urgency;
    std::vector<PageRead> reads;
    std::vector<PageScales> scales;
    // Where the next piece begins, and the pieces that are under way.
    size_t read = 0, place = 0, under_way = 0;
    PageAnswer answer{};

    bool has_pieces() const { return !answer.has_failed && read < reads.size(); }
    bool is_over() const { return !has_pieces() && !under_way; }

    // The first read whose file is no longer what it was; their number where all are.
    size_t first_changed() const {
        for (size_t i = 0; i < reads.size(); ++i)
            if ((i == 0 || reads[i].file != reads[i - 1].file) && reads[i].file->has_changed()) return i;
        return reads.size();
    }

    bool has_nan() const {
        for (const PageScales& part : scales)
            if (holds_255(part)) return true;
        return false;
    }

    // Of several failures the first place is told.
    void fail(size_t at, uint64_t filled, int error) {
        if (answer.has_failed && (answer.read < at || (answer.read == at && answer.filled <= filled))) return;
        answer = {id, true, false, at, error, filled};
    }
};
using JobPointer = std::shared_ptr<Job>;

struct Piece {
    JobPointer job;
    size_t read = 0, place = 0, nbytes = 0, needed = 0;
    const PageRead& of() const { return job->reads[read]; }
};

// What is over, of all disks; its lock is that of all queues.
struct Answers {
    std::mutex lock;
    std::condition_variable arrived;
    std::vector<PageAnswer> over;
    bool held = false, stopped = false;
};

// The jobs of a disk. Everything but `take` and `finish` is called with the lock held.
class Queue {
   public:
    Queue(Answers& answers, size_t piece, uint64_t shuffle)
        : answers_(answers), piece_(piece), shuffle_(shuffle), random_(shuffle) {}

    void put(JobPointer job) {
        waiting_[index(job->urgency)].push_back(std::move(job));
        changed.notify_all();
    }

    bool hurry(uint64_t id) {
        for (const JobPointer& job : begun_)
            if (job->id == id) return job->urgency = Urgency::demand, true;
        JobPointer job = remove(id);
        if (!job) return false;
        job->urgency = Urgency::demand;
        put(std::move(job));
        return true;
    }

    JobPointer remove(uint64_t id) {
        for (auto& waiting : waiting_)
            for (auto at = waiting.begin(); at != waiting.end(); ++at)
                if ((*at)->id == id) {
                    JobPointer job = std::move(*at);
                    waiting.erase(at);
                    return job;
                }
        return nullptr;
    }

    JobPointer remove_last() {
        for (const Urgency urgency : {Urgency::warm, Urgency::ahead})
            if (auto& waiting = waiting_[index(urgency)]; !waiting.empty()) {
                JobPointer job = std::move(waiting.back());
                waiting.pop_back();
                return job;
            }
        return nullptr;
    }

    bool is_idle() const {
        const auto is_empty = [](const auto& jobs) { return jobs.empty(); };
        return begun_.empty() && std::all_of(waiting_, waiting_ + kUrgencies, is_empty);
    }

    // What is not under way is over.
    void cancel() {
        for (auto& waiting : waiting_) {
            for (const JobPointer& job : waiting) {
                job->fail(0, 0, ECANCELED);
                tell(*job);
            }
            waiting.clear();
        }
        for (const JobPointer& job : std::vector<JobPointer>(begun_))
            if (job->has_pieces()) {
                job->fail(job->read, job->place, ECANCELED);
                if (job->is_over()) end(job);
            }
        changed.notify_all();
    }

    // The next piece; false when there is none, or for ever once stopped. With `wait` until there is one.
    bool take(Piece& piece, bool wait) {
        std::unique_lock<std::mutex> guard(answers_.lock);
        JobPointer job;
        const auto found = [&] { return answers_.stopped || (job = next()); };
        if (wait) changed.wait(guard, found);
        else found();
        if (!job) return false;
        const PageRead& read = job->reads[job->read];
        const size_t nbytes = std::min(piece_, read.nbytes - job->place);
        piece = {job, job->read, job->place, nbytes, std::min(nbytes, read.wanted - std::min(read.wanted, job->place))};
        job->place += nbytes;
        ++job->under_way;
        if (job->place >= read.wanted) {
            ++job->read;
            job->place = 0;
        }
        return true;
    }

    void finish(const Piece& piece, size_t filled, int error) {
        Job& job = *piece.job;
        {
            const std::lock_guard<std::mutex> guard(answers_.lock);
            --job.under_way;
            if (filled < piece.needed) job.fail(piece.read, piece.place + filled, error);
            if (!job.is_over()) return;
        }
        // Of the last piece: nobody else touches what was read. Not with the lock held: a disk may take its time.
        const size_t changed = job.answer.has_failed ? job.reads.size() : job.first_changed();
        const bool has_nan = !job.answer.has_failed && job.has_nan();
        const std::lock_guard<std::mutex> guard(answers_.lock);
        job.answer.has_nan = has_nan;
        if (changed < job.reads.size()) job.fail(changed, 0, ESTALE);
        end(piece.job);
    }

    // Whoever waits for a piece is told to look again.
    std::condition_variable changed;

   private:
    static size_t index(Urgency urgency) { return static_cast<size_t>(urgency); }

    // The job whose piece is next: of the most urgent one that has begun, else one that may begin.
    JobPointer next() {
        JobPointer best;
        for (const JobPointer& job : begun_)
            if (job->has_pieces() && (!best || job->urgency < best->urgency)) best = job;
        if (answers_.held || (best && best->urgency == Urgency::demand)) return best;
        std::deque<JobPointer>* from = startable();
        if (!from || (best && best->urgency <= from->front()->urgency)) return best;
        if (shuffle_) std::swap(from->front(), (*from)[random_() % from->size()]);
        begun_.push_back(from->front());
        from->pop_front();
        return begun_.back();
    }

    std::deque<JobPointer>* startable() {
        auto &demands = waiting_[0], &ahead = waiting_[1], &warm = waiting_[2];
        if (!demands.empty()) return &demands;
        if (!ahead.empty()) return begun_.empty() ? &ahead : nullptr;
        const auto is_demand = [](const JobPointer& job) { return job->urgency == Urgency::demand; };
        return warm.empty() || std::any_of(begun_.begin(), begun_.end(), is_demand) ? nullptr : &warm;
    }

    void end(const JobPointer& job) {
        tell(*job);
        begun_.erase(std::find(begun_.begin(), begun_.end(), job));
        changed.notify_all();
    }

    void tell(Job& job) {
        job.answer.job = job.id;
        answers_.over.push_back(job.answer);
        answers_.arrived.notify_all();
    }

    Answers& answers_;
    const size_t piece_;
    const uint64_t shuffle_;
    std::mt19937_64 random_;
    std::deque<JobPointer> waiting_[kUrgencies];
    std::vector<JobPointer> begun_;
};

}  // namespace page_queue
