// Threads that share the work of one operator, and the memory it works in. C ABI.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ShoalPool ShoalPool;
// Does piece `index` of the work; `worker` is below the pool's number of threads and never two at once.
typedef void (*ShoalTask)(void* context, size_t index, size_t worker);

// A pool of `threads` >= 1, the caller being one of them. The others start with the first work that needs them.
ShoalPool* shoal_pool_create(size_t threads);
void shoal_pool_destroy(ShoalPool* pool);
size_t shoal_pool_threads(const ShoalPool* pool);

// Runs task(context, i, worker) once for every i below `count` and returns when all are done. Threads take the next
// piece when they are free, so a busy neighbour on one core costs little; a thread that has not woken yet is not waited
// for. Not to be called from a task.
void shoal_pool_run(ShoalPool* pool, size_t count, ShoalTask task, void* context);

// One caller at a time: the binding holds this around every call of an operator. A fork waits for it.
void shoal_pool_lock(ShoalPool* pool);
void shoal_pool_unlock(ShoalPool* pool);

// Memory that is kept from call to call: a stack. Take a mark, take pieces (64-byte aligned, not cleared), release the
// mark. Only outside of tasks; pieces for every worker are taken beforehand. Ends the process when there is no memory.
size_t shoal_scratch_mark(const ShoalPool* pool);
void* shoal_scratch(ShoalPool* pool, size_t nbytes);
void shoal_scratch_release(ShoalPool* pool, size_t mark);

#ifdef __cplusplus
}
#endif
