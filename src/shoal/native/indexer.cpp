// The indexer operators, compiled once per instruction set.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"
#include "parallel.inl"
