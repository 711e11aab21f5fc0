#include "common/backend/cuda/cuda_experts.h"

#include <cstring>

#include "common/base/check.h"

namespace outrider {

Result<std::unique_ptr<CudaExperts>> CudaExperts::Create(
    std::vector<std::unique_ptr<PackedMatrix>> matrices, StagedCopy* staging) {
  OUTRIDER_CHECK(!matrices.empty() && static_cast<int>(matrices.size()) <= kMaxExperts);
  const auto& first = static_cast<const CudaMatrix&>(*matrices[0]);
  const Dtype dtype = first.dtype();
  const int stride = first.stride();
  std::vector<DeviceExpert> table;
  for (const std::unique_ptr<PackedMatrix>& packed : matrices) {
    const auto& matrix = static_cast<const CudaMatrix&>(*packed);
    OUTRIDER_CHECK(matrix.dtype() == dtype && matrix.stride() == stride &&
                   matrix.out_features() == first.out_features());
    DeviceExpert expert;
    if (matrix.codes() != nullptr) {
      expert.codes = matrix.codes()->view();
    } else {
      expert.values = matrix.values<void>();
    }
    table.push_back(expert);
  }
  const size_t bytes = table.size() * sizeof(DeviceExpert);
  OUTRIDER_ASSIGN(std::unique_ptr<CudaBuffer> buffer,
                  CudaBuffer::Allocate(MemoryKind::kDevice, bytes, &staging->stream()));
  staging->Write(buffer->data(), bytes, sizeof(DeviceExpert),
                 [&](std::byte* piece, size_t begin, size_t count) {
                   std::memcpy(piece, table.data() + begin, count * sizeof(DeviceExpert));
                 });
  const bool on_tensor_cores = HasTensorExpertProduct(dtype, table);
  return std::unique_ptr<CudaExperts>(new CudaExperts(std::move(matrices), std::move(buffer),
                                                      table[0], dtype, stride, on_tensor_cores));
}

}  // namespace outrider
