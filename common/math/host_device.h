// OUTRIDER_HD marks a function that both the host's compiler and nvcc compile.
#pragma once

#if defined(__CUDACC__)
#define OUTRIDER_HD __host__ __device__
#else
#define OUTRIDER_HD
#endif
