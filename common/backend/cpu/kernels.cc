#include "common/backend/cpu/kernels.h"

#include "hwy/targets.h"

namespace outrider {

CpuKernels ChooseKernels() {
  // Initialises Highway's dispatch tables, which would otherwise still point to a wrapper.
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  hwy::GetChosenTarget().Update(targets);
  CpuKernels kernels{};
  kernels.name = hwy::TargetName(targets & -targets);  // the lowest bit is the best target
  ChooseFloatMatMul(kernels);
  ChooseInt8MatMul(kernels);
  ChooseDotMatMul(kernels);
  ChooseFixedMatMul(kernels);
  ChooseRowKernels(kernels);
  ChooseRope(kernels);
  ChooseAttention(kernels);
  return kernels;
}

}  // namespace outrider
