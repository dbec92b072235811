// Names of what is compiled once per instruction set: SHOAL_NAME(rms_norm) is shoal_rms_norm_avx2 in the AVX2 objects.
#pragma once

#define SHOAL_JOIN2(a, b) a##b
#define SHOAL_JOIN(a, b) SHOAL_JOIN2(a, b)
#define SHOAL_TEXT2(a) #a
#define SHOAL_TEXT(a) SHOAL_TEXT2(a)
#define SHOAL_NAME(operator_name) SHOAL_JOIN(SHOAL_JOIN(SHOAL_JOIN(shoal_, operator_name), _), SHOAL_ISA)
