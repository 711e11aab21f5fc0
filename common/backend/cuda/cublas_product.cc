#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/large_product.h"
#include "common/backend/cuda/product_choice.h"
#include "common/backend/cuda/stream_capture.h"
#include "common/base/check.h"

namespace outrider {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // NVIDIA's recommendation for Hopper
constexpr uint32_t kRowAlignment = 16;                // of rows in the middle of a buffer
constexpr int kCandidates = 8;
constexpr int kTimedRuns = 3;  // after one warm-up run
// Bytes of weights from which candidates are timed. A smaller product takes only a few
// microseconds: its timings are mostly noise, and two starts of a service would choose different
// algorithms.
constexpr int64_t kLeastTimedBytes = int64_t{4} << 20;

void Must(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text =
      std::string("cublasLt, ") + what + ": " + cublasLtGetStatusString(status);
  if (StreamCapture::Invalidate(text)) return;
  CheckFailed(text.c_str(), __FILE__, __LINE__);
}

// The library does not support the request. Not fatal: a slower path does.
bool IsUnsupported(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

bool IsFp8(const ProductCall& call) { return call.w_scales != nullptr; }

cudaDataType_t LibraryType(const ProductCall& call) {
  if (IsFp8(call)) return CUDA_R_8F_E4M3;
  switch (call.dtype) {
    case Dtype::kF32: return CUDA_R_32F;
    case Dtype::kF16: return CUDA_R_16F;
    case Dtype::kBf16: return CUDA_R_16BF;
  }
  return CUDA_R_32F;
}

// The cublasLt descriptors of one shape.
class Description {
 public:
  // Row-major y[rows, out] is the column-major [out, rows] of the library: W^T x, with W's rows as
  // columns.
  explicit Description(const ProductCall& call) {
    const cudaDataType_t type = LibraryType(call);
    const auto out = static_cast<uint64_t>(call.out_features);
    const auto columns = static_cast<uint64_t>(call.rows);
    const auto inner = static_cast<uint64_t>(call.stride);
    // Full f32, no TF32: the parity with the CPU relies on it.
    Must(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing");
    Set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (IsFp8(call)) {
      Set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, call.in_blocks
                                                 ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                                 : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      Set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, call.in_blocks
                                                 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                                 : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      SetScales(call);
    }
    Must(cublasLtMatrixLayoutCreate(&w_, type, inner, out, call.stride), "describing w");
    Must(cublasLtMatrixLayoutCreate(&x_, type, inner, columns, call.stride), "describing x");
    Must(cublasLtMatrixLayoutCreate(&y_, CUDA_R_32F, out, columns, call.out_features),
         "describing y");
  }
  ~Description() {
    cublasLtMatrixLayoutDestroy(y_);
    cublasLtMatrixLayoutDestroy(x_);
    cublasLtMatrixLayoutDestroy(w_);
    cublasLtMatmulDescDestroy(operation_);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  // The library's candidates, its own first choice first; empty if it has none.
  std::vector<cublasLtMatmulAlgo_t> Candidates(cublasLtHandle_t handle) const {
    cublasLtMatmulPreference_t preference = nullptr;
    Must(cublasLtMatmulPreferenceCreate(&preference), "asking for an algorithm");
    Must(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &kWorkspaceBytes, sizeof(kWorkspaceBytes)),
         "asking for an algorithm");
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      Must(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &kRowAlignment,
                                                sizeof(kRowAlignment)),
           "asking for an algorithm");
    }
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results = {};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, operation_, w_, x_, y_, y_, preference, kCandidates, results.data(), &found);
    if (!IsUnsupported(status)) Must(status, "asking for an algorithm");
    Must(cublasLtMatmulPreferenceDestroy(preference), "asking for an algorithm");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < found; ++i) {
      if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[i].algo);
    }
    return algorithms;
  }

  // Whether an algorithm chosen for another number of rows works for this one too, in our
  // workspace.
  bool Takes(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t result = {};
    return cublasLtMatmulAlgoCheck(handle, operation_, w_, x_, y_, y_, &algorithm, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspaceBytes;
  }

  // Computes the product into `y` (call.y, except when timing).
  cublasStatus_t Run(cublasLtHandle_t handle, const ProductCall& call,
                     const cublasLtMatmulAlgo_t& algorithm, float* y, void* workspace,
                     cudaStream_t stream) const {
    if (IsFp8(call)) SetScales(call);
    const float alpha = 1.f, beta = call.accumulate ? 1.f : 0.f;
    return cublasLtMatmul(handle, operation_, &alpha, call.w, w_, call.x, x_, &beta, y, y_, y, y_,
                          &algorithm, workspace, kWorkspaceBytes, stream);
  }

 private:
  template <class T>
  void Set(cublasLtMatmulDescAttributes_t attribute, T value) const {
    Must(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)),
         "describing");
  }
  void SetScales(const ProductCall& call) const {
    Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call.w_scales);
    Set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call.x_scales);
  }

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
};

// Size of the device's L2 cache: writing as many bytes evicts everything else.
size_t CacheBytes() {
  int device = 0, bytes = 0;
  MustSucceed(cudaGetDevice(&device), "asking for the device");
  MustSucceed(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device),
              "asking for its cache");
  return static_cast<size_t>(bytes);
}

class Stopwatch {
 public:
  Stopwatch() {
    MustSucceed(cudaEventCreate(&begin_), "creating an event");
    MustSucceed(cudaEventCreate(&end_), "creating an event");
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void Start(cudaStream_t stream) { MustSucceed(cudaEventRecord(begin_, stream), "timing"); }
  // Waits. Returns milliseconds.
  float Stop(cudaStream_t stream) {
    float milliseconds = 0.f;
    MustSucceed(cudaEventRecord(end_, stream), "timing");
    MustSucceed(cudaEventSynchronize(end_), "timing");
    MustSucceed(cudaEventElapsedTime(&milliseconds, begin_, end_), "timing");
    return milliseconds;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

class CublasProduct final : public LargeProduct {
 public:
  CublasProduct(cublasLtHandle_t handle, std::unique_ptr<CudaBuffer> workspace)
      : handle_(handle), workspace_(std::move(workspace)) {}
  ~CublasProduct() override {
    plans_.clear();
    cublasLtDestroy(handle_);
  }

  bool Supports(const ProductCall& call) override { return !PlanOf(call).candidates.empty(); }

  bool Run(const ProductCall& call, cudaStream_t stream) override {
    Plan& plan = PlanOf(call);
    if (plan.candidates.empty()) return false;
    if (plan.candidates.size() > 1) {
      // The search waits, and would be remembered.
      if (StreamCapture::Invalidate("the algorithm of a product is not chosen yet")) return true;
      plan.candidates = {plan.candidates[Fastest(plan.description, call, plan.candidates, stream)]};
      chosen_.try_emplace(Bucket(call), plan.candidates[0]);
    }
    const cublasStatus_t status =
        plan.description.Run(handle_, call, plan.candidates[0], call.y, workspace_->data(), stream);
    if (IsUnsupported(status)) {
      plan.candidates.clear();
      return false;
    }
    Must(status, "multiplying");
    return true;
  }

 private:
  using Shape = std::tuple<int, int, int, cudaDataType_t, bool>;
  struct Plan {
    explicit Plan(const ProductCall& call) : description(call) {}
    Description description;
    // One, once it is chosen; none: there is no such product.
    std::vector<cublasLtMatmulAlgo_t> candidates;
  };

  static Shape ShapeOf(const ProductCall& call, int rows) {
    return {call.out_features, call.stride, rows, LibraryType(call), call.in_blocks};
  }
  static Shape Bucket(const ProductCall& call) { return ShapeOf(call, RowBucket(call.rows)); }

  // The plan of the call's shape, made at its first call: with the algorithm of the bucket, or with
  // those to choose from.
  Plan& PlanOf(const ProductCall& call) {
    const auto [it, is_new] = plans_.try_emplace(ShapeOf(call, call.rows), call);
    Plan& plan = it->second;
    if (!is_new) return plan;
    const auto known = chosen_.find(Bucket(call));
    if (known != chosen_.end() && plan.description.Takes(handle_, known->second)) {
      plan.candidates = {known->second};
    } else {
      plan.candidates = plan.description.Candidates(handle_);
      const int64_t element = IsFp8(call) ? 1 : static_cast<int64_t>(DtypeBytes(call.dtype));
      const int64_t weight_bytes = int64_t{call.out_features} * call.stride * element;
      // The library's own first choice.
      if (weight_bytes < kLeastTimedBytes && plan.candidates.size() > 1) plan.candidates.resize(1);
      if (plan.candidates.size() == 1) chosen_.try_emplace(Bucket(call), plan.candidates[0]);
    }
    return plan;
  }

  // Times the candidates on the call's own operands, with weights read from memory, as they are
  // when layers take turns. The outputs are written elsewhere, since the call may accumulate.
  // Without memory for that, takes the library's own choice.
  size_t Fastest(const Description& description, const ProductCall& call,
                 std::span<const cublasLtMatmulAlgo_t> candidates, cudaStream_t stream) {
    const size_t bytes =
        static_cast<size_t>(call.rows) * static_cast<size_t>(call.out_features) * sizeof(float);
    const Result<std::unique_ptr<CudaBuffer>> aside =
        CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr);
    const Result<std::unique_ptr<CudaBuffer>> cache =
        CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, CacheBytes(), nullptr);
    if (!aside.ok() || !cache.ok()) return 0;
    auto* y = static_cast<float*>((*aside)->data());
    Stopwatch watch;
    std::vector<float> milliseconds;
    for (const cublasLtMatmulAlgo_t& algorithm : candidates) {
      const auto run = [&] {
        return description.Run(handle_, call, algorithm, y, workspace_->data(), stream) ==
               CUBLAS_STATUS_SUCCESS;
      };
      bool works = run();
      float took = 0;
      for (int i = 0; i < kTimedRuns && works; ++i) {
        MustSucceed(cudaMemsetAsync((*cache)->data(), 0, (*cache)->bytes(), stream), "clearing");
        watch.Start(stream);
        works = run();
        took += watch.Stop(stream);
      }
      milliseconds.push_back(works ? took : -1.f);
    }
    return ChooseAlgorithm(milliseconds);
  }

  const cublasLtHandle_t handle_;
  const std::unique_ptr<CudaBuffer> workspace_;
  std::map<Shape, Plan> plans_;  // by rows: creating descriptors takes longer than a look-up
  std::map<Shape, cublasLtMatmulAlgo_t> chosen_;  // by bucket of rows
};

}  // namespace

Result<std::unique_ptr<LargeProduct>> CreateCublasProduct() {
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t status = cublasLtCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return Internal(std::string("cublasLt: ") + cublasLtGetStatusString(status));
  }
  // Captured products refer to it, but it is freed with the backend, after all graphs.
  Result<std::unique_ptr<CudaBuffer>> workspace =
      CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, kWorkspaceBytes, nullptr);
  if (!workspace.ok()) {
    cublasLtDestroy(handle);
    return workspace.status();
  }
  return std::unique_ptr<LargeProduct>(
      std::make_unique<CublasProduct>(handle, std::move(workspace).value()));
}

}  // namespace outrider
