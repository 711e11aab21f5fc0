#include <cublasLt.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/large_product.h"
#include "common/base/check.h"

namespace outrider {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // the library's advice for Hopper
constexpr uint32_t kAlignment = 16;                   // of rows in the middle of a buffer

void Must(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text =
      std::string("cublasLt, ") + what + ": " + cublasLtGetStatusString(status);
  CheckFailed(text.c_str(), __FILE__, __LINE__);
}

// One shape's descriptors and the algorithm for it.
class Plan {
 public:
  // Row-major y[rows, out] is the column-major [out, rows] of the library: W^T x, with W's rows as
  // columns.
  Plan(cublasLtHandle_t handle, const ProductCall& call) {
    const cudaDataType_t type = call.dtype == Dtype::kF32   ? CUDA_R_32F
                                : call.dtype == Dtype::kF16 ? CUDA_R_16F
                                                            : CUDA_R_16BF;
    const auto out = static_cast<uint64_t>(call.out_features);
    const auto rows = static_cast<uint64_t>(call.rows);
    const auto inner = static_cast<uint64_t>(call.stride);
    // f32 in full, no TF32: the parity with the CPU rests on it.
    Must(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    Must(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                        sizeof(transposed)),
         "describing");
    Must(cublasLtMatrixLayoutCreate(&w_, type, inner, out, call.stride), "describing w");
    Must(cublasLtMatrixLayoutCreate(&x_, type, inner, rows, call.stride), "describing x");
    Must(cublasLtMatrixLayoutCreate(&y_, CUDA_R_32F, out, rows, call.out_features), "describing y");

    cublasLtMatmulPreference_t preference = nullptr;
    Must(cublasLtMatmulPreferenceCreate(&preference), "asking for an algorithm");
    Must(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &kWorkspaceBytes, sizeof(kWorkspaceBytes)),
         "asking for an algorithm");
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      Must(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &kAlignment,
                                                sizeof(kAlignment)),
           "asking for an algorithm");
    }
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    Must(cublasLtMatmulAlgoGetHeuristic(handle, operation_, w_, x_, y_, y_, preference, 1, &best,
                                        &found),
         "asking for an algorithm");
    OUTRIDER_CHECK(found == 1);
    algorithm_ = best.algo;
    Must(cublasLtMatmulPreferenceDestroy(preference), "asking for an algorithm");
  }
  ~Plan() {
    cublasLtMatrixLayoutDestroy(y_);
    cublasLtMatrixLayoutDestroy(x_);
    cublasLtMatrixLayoutDestroy(w_);
    cublasLtMatmulDescDestroy(operation_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void Run(cublasLtHandle_t handle, const ProductCall& call, void* workspace,
           cudaStream_t stream) const {
    const float alpha = 1.f, beta = call.accumulate ? 1.f : 0.f;
    Must(cublasLtMatmul(handle, operation_, &alpha, call.w, w_, call.x, x_, &beta, call.y, y_,
                        call.y, y_, &algorithm_, workspace, kWorkspaceBytes, stream),
         "multiplying");
  }

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

class CublasProduct final : public LargeProduct {
 public:
  CublasProduct(cublasLtHandle_t handle, std::unique_ptr<CudaBuffer> workspace)
      : handle_(handle), workspace_(std::move(workspace)) {}
  ~CublasProduct() override {
    plans_.clear();
    cublasLtDestroy(handle_);
  }

  void Run(const ProductCall& call, cudaStream_t stream) override {
    const Shape shape(call.out_features, call.stride, call.rows, call.dtype);
    auto plan = plans_.find(shape);
    if (plan == plans_.end()) plan = plans_.try_emplace(shape, handle_, call).first;
    plan->second.Run(handle_, call, workspace_->data(), stream);
  }

 private:
  using Shape = std::tuple<int, int, int, Dtype>;

  const cublasLtHandle_t handle_;
  const std::unique_ptr<CudaBuffer> workspace_;
  std::map<Shape, Plan> plans_;  // asking takes far longer than looking
};

}  // namespace

Result<std::unique_ptr<LargeProduct>> CreateCublasProduct() {
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t status = cublasLtCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return Internal(std::string("cublasLt: ") + cublasLtGetStatusString(status));
  }
  Result<std::unique_ptr<CudaBuffer>> workspace =
      CudaBuffer::Allocate(Place::kDevice, kWorkspaceBytes);
  if (!workspace.ok()) {
    cublasLtDestroy(handle);
    return workspace.status();
  }
  return std::unique_ptr<LargeProduct>(
      std::make_unique<CublasProduct>(handle, std::move(workspace).value()));
}

}  // namespace outrider
