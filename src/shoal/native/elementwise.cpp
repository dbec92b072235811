// The elementwise operators, compiled once per instruction set; one file a noun.
//
// No std templates here: the linker may keep one copy of a shared inline function, built for the wrong processor.
#include "kernels.h"
#include "lanes.h"
#include "parallel.inl"

// Each may build on those above it.
#include "elementary.inl"
#include "quantize.inl"
#include "norm.inl"
#include "hyper_connections.inl"
#include "pooling.inl"
#include "engram.inl"
#include "routing.inl"
