// The CPU backend: vectorised for the machine at run time (Highway), over a pool of threads.
#pragma once

#include <memory>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"

namespace outrider {

struct CpuBackendOptions {
  int threads = 1;
  // Cores to pin the threads to, in order; empty: not pinned. The first is for the thread that
  // calls the ops, which the first op pins.
  std::vector<int> cores;
  // Rounds the activations of a product with bf16 weights to bf16 as well, where the processor
  // multiplies bf16 (AVX512_BF16): up to twice as fast from 4 rows on, for activations of 3 digits
  // instead of 7. Without such a processor it changes nothing.
  bool bf16_activations = false;
};
// kInvalidArgument for less than one thread or a core that this process may not use.
Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options);

}  // namespace outrider
