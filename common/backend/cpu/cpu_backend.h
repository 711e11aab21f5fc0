// The CPU backend: vectorised for the machine at run time (Highway), on a thread pool.
#pragma once

#include <memory>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"

namespace outrider {

struct CpuBackendOptions {
  int threads = 1;
  // Cores to pin the threads to, in order; empty: not pinned. The first is for the calling thread,
  // which the first op pins.
  std::vector<int> cores;
  // Also rounds the activations to bf16 in products with bf16 weights, where the processor
  // multiplies bf16 (AVX512_BF16): up to twice as fast from 4 rows on, with activations of 3
  // significant digits instead of 7. Has no effect on other processors.
  bool bf16_activations = false;
  // Rounds the activations to 8 bits in products with integer codes and MXFP4, with a scale for
  // each row and group of inputs, where the processor has AVX512_VNNI: 8 rows take 0.4 of the time,
  // one row the same. Has no effect on other processors, and none on floats and FP8.
  bool int8_activations = false;
};
// kInvalidArgument for fewer than one thread or a core that this process may not use.
Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options);

}  // namespace outrider
