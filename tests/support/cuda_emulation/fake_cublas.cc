// A double of cublasLt for tests (fake_cublas.h).
#include "tests/support/cuda_emulation/fake_cublas.h"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/math/fp8.h"
#include "common/tensor/tensor.h"
#include "tests/support/cuda_emulation/streams.h"

using outrider::cuda_emulation::Enqueue;
using outrider::cuda_emulation::FakeAlgorithm;
using outrider::cuda_emulation::IsTaken;
using outrider::cuda_emulation::SpendMilliseconds;

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t of_a = CUBLAS_OP_N, of_b = CUBLAS_OP_N;
  // Scales of all values, of each row of a and column of b, or of blocks of these.
  cublasLtMatmulMatrixScale_t a_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  cublasLtMatmulMatrixScale_t b_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  const float *a_scales = nullptr, *b_scales = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c and d, the documented default
};

namespace {

constexpr uint64_t kMark = 0x6f7574726964u;  // of an algorithm that the double has suggested
constexpr uintptr_t kWorkspaceAlignment = 256;

struct State {
  std::vector<FakeAlgorithm> algorithms = {{}};
  std::vector<size_t> products;
  int searches = 0;
  std::vector<std::string> misuses;
  int objects = 0;
  bool fail_create = false;
};
thread_local State state;

cublasStatus_t Misuse(cublasStatus_t status, const std::string& why) {
  state.misuses.push_back(why);
  return status;
}

// The sides, types and layouts of a product, and its operands if it runs.
struct Product {
  cublasLtMatmulDescOpaque_t description;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
};

size_t ElementBytes(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}

double Load(const void* values, cudaDataType_t type, int64_t index) {
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(values)[index]);
  if (type == CUDA_R_8F_E4M3) {
    return static_cast<double>(outrider::Fp8ToFloat(static_cast<const uint8_t*>(values)[index]));
  }
  const uint16_t bits = static_cast<const uint16_t*>(values)[index];
  return static_cast<double>(type == CUDA_R_16F ? outrider::F16ToFloat(bits)
                                                : outrider::Bf16ToFloat(bits));
}

constexpr uint64_t kScaleBlock = 128;

uint64_t BlocksOf(uint64_t side) { return (side + kScaleBlock - 1) / kScaleBlock; }
// Scales from one block of 128 x 128 to the block beside it, in a or b with so many values in a
// sum: those of the sum's blocks follow each other, padded to a multiple of 4.
uint64_t BlockStride(uint64_t inner) { return (BlocksOf(inner) + 3) / 4 * 4; }

// The number of scales of a matrix with `outer` rows (a) or columns (b).
uint64_t ScalesOf(cublasLtMatmulMatrixScale_t mode, uint64_t outer, uint64_t inner) {
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F: break;  // refused
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F: return outer;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F: return outer * BlocksOf(inner);
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F: return BlockStride(inner) * BlocksOf(outer);
  }
  return 0;
}
// The index of the scale of row (a) or column (b) `i` of `outer`, in block `block` of its values.
uint64_t ScaleAt(cublasLtMatmulMatrixScale_t mode, uint64_t outer, uint64_t inner, uint64_t i,
                 uint64_t block) {
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F: break;
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F: return i;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F: return block * outer + i;
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      return i / kScaleBlock * BlockStride(inner) + block;
  }
  return 0;
}

bool IsOfBlocks(cublasLtMatmulMatrixScale_t mode) {
  return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F ||
         mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
}

// What is wrong with scales of blocks; empty: nothing. The rules are those of "128-element 1D and
// 128x128 2D Block Scaling For FP8 Data Types" in the documentation.
std::string WhatIsWrongInBlocks(const Product& p) {
  const cublasLtMatmulDescOpaque_t& description = p.description;
  if (!IsOfBlocks(description.a_scale_mode) || !IsOfBlocks(description.b_scale_mode)) {
    return "scales of blocks on one side only";
  }
  if (description.a_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F &&
      description.b_scale_mode == description.a_scale_mode) {
    return "blocks of 128 x 128 on both sides";
  }
  if (p.d.rows % 4 != 0 || p.d.columns % 4 != 0) {
    return "scales of blocks, and rows or columns of d that are no multiples of 4";
  }
  for (const float* const scales : {description.a_scales, description.b_scales}) {
    if (reinterpret_cast<uintptr_t>(scales) % 16 != 0) return "scales that 16 bytes do not align";
  }
  return "";
}

// What it forbids for FP8 besides.
std::string WhatIsWrongInFp8(const Product& p) {
  const cublasLtMatmulDescOpaque_t& description = p.description;
  const cublasLtMatmulMatrixScale_t a_mode = description.a_scale_mode,
                                    b_mode = description.b_scale_mode;
  // Sides must be multiples of 16 bytes.
  if (p.a.rows % 16 != 0 || p.d.rows * sizeof(float) % 16 != 0) {
    return "FP8 with sides that are no multiples of 16 bytes";
  }
  if (p.a.leading % 16 != 0 || p.b.leading % 16 != 0) {
    return "FP8 with leading dimensions that are no multiples of 16 bytes";
  }
  if (IsOfBlocks(a_mode) || IsOfBlocks(b_mode)) {
    if (std::string wrong = WhatIsWrongInBlocks(p); !wrong.empty()) return wrong;
  } else if (a_mode != CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F || b_mode != a_mode) {
    return "the double has scales of rows of a and columns of b, or of blocks";
  }
  const auto are_there = [](const float* scales, uint64_t count) {
    return IsTaken(scales, count * sizeof(float));
  };
  if (!are_there(description.a_scales, ScalesOf(a_mode, p.a.columns, p.a.rows)) ||
      !are_there(description.b_scales, ScalesOf(b_mode, p.b.columns, p.b.rows))) {
    return "scales are not in device memory, or not all of them";
  }
  return "";
}

// What the documentation of cublasLtMatmul forbids; empty: nothing.
std::string WhatIsWrong(const Product& p) {
  const cublasLtMatrixLayoutOpaque_t &a = p.a, &b = p.b, &c = p.c, &d = p.d;
  if (p.description.compute != CUBLAS_COMPUTE_32F) return "f32 is multiplied as TF32";
  if (p.description.scale != CUDA_R_32F) return "alpha and beta are not f32";
  if (a.type != b.type) return "a and b have different types";
  if (c.type != CUDA_R_32F || d.type != CUDA_R_32F) return "the double returns f32 only";
  if (p.description.of_a != CUBLAS_OP_T || p.description.of_b != CUBLAS_OP_N) {
    return "the double transposes a, and not b";
  }
  for (const auto* layout : {&a, &b, &c, &d}) {
    if (layout->rows == 0 || layout->columns == 0) return "an empty matrix";
    if (layout->leading < static_cast<int64_t>(layout->rows)) {
      return "a leading dimension of " + std::to_string(layout->leading) + " for " +
             std::to_string(layout->rows) + " rows";
    }
  }
  if (a.rows != b.rows) return "a and b sum over different sides";
  if (d.rows != a.columns || d.columns != b.columns) return "d has other sides than the product";
  if (c.rows != d.rows || c.columns != d.columns) return "c has other sides than d";
  return a.type == CUDA_R_8F_E4M3 ? WhatIsWrongInFp8(p) : "";
}

bool Takes(const FakeAlgorithm& algorithm, const Product& product) {
  return product.b.columns % static_cast<uint64_t>(algorithm.column_multiple) == 0 &&
         (algorithm.takes_fp8 || product.a.type != CUDA_R_8F_E4M3);
}

size_t WorkspaceOf(const FakeAlgorithm& algorithm, const Product& product) {
  return algorithm.workspace_of_column * product.d.columns;
}

// Whether the matrix at `values` is device memory from its first to its last element.
bool IsDeviceMatrix(const void* values, const cublasLtMatrixLayoutOpaque_t& layout) {
  const size_t elements = (layout.columns - 1) * static_cast<size_t>(layout.leading) + layout.rows;
  return IsTaken(values, elements * ElementBytes(layout.type));
}

struct Operands {
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  float* d = nullptr;
  float alpha = 0, beta = 0;
};

// What is wrong with the operands of a product by an algorithm; empty: nothing.
std::string WhatIsWrong(const Product& p, const Operands& o,
                        const cublasLtMatmulAlgo_t& algorithm) {
  const std::pair<const void*, const cublasLtMatrixLayoutOpaque_t*> matrices[] = {
      {o.a, &p.a}, {o.b, &p.b}, {o.c, &p.c}, {o.d, &p.d}};
  for (size_t i = 0; i < 4; ++i) {
    const auto& [values, layout] = matrices[i];
    const std::string name(1, "abcd"[i]);
    if (i == 2 && o.beta == 0) continue;
    if (!IsDeviceMatrix(values, *layout))
      return name + " is not in device memory, or not all of it";
    if (reinterpret_cast<uintptr_t>(values) % algorithm.data[i + 2] != 0) {
      return name + " is not aligned to " + std::to_string(algorithm.data[i + 2]) +
             " bytes, as the search for the algorithm said";
    }
  }
  if (o.c == o.d && p.c.leading != p.d.leading) return "c is d, but in another layout";
  return "";
}

// The scale of a block of the sum for an element of d.
double ScaleOf(const Product& p, uint64_t row, uint64_t column, uint64_t block) {
  if (p.a.type != CUDA_R_8F_E4M3) return 1;
  const cublasLtMatmulDescOpaque_t& d = p.description;
  const uint64_t of_a = ScaleAt(d.a_scale_mode, p.a.columns, p.a.rows, row, block);
  const uint64_t of_b = ScaleAt(d.b_scale_mode, p.b.columns, p.b.rows, column, block);
  return static_cast<double>(d.a_scales[of_a]) * static_cast<double>(d.b_scales[of_b]);
}

double Dot(const Product& p, const Operands& o, uint64_t row, uint64_t column) {
  const auto of_a = static_cast<int64_t>(row) * p.a.leading;
  const auto of_b = static_cast<int64_t>(column) * p.b.leading;
  double sum = 0;
  for (uint64_t block = 0; block < BlocksOf(p.a.rows); ++block) {
    const auto first = static_cast<int64_t>(block * kScaleBlock);
    const auto end = static_cast<int64_t>(std::min(p.a.rows, (block + 1) * kScaleBlock));
    double part = 0;
    for (int64_t k = first; k < end; ++k) {
      part += Load(o.a, p.a.type, of_a + k) * Load(o.b, p.b.type, of_b + k);
    }
    sum += part * ScaleOf(p, row, column, block);
  }
  return sum;
}

cudaError_t Multiply(const Product& p, const Operands& o, float milliseconds) {
  SpendMilliseconds(milliseconds);
  for (uint64_t column = 0; column < p.d.columns; ++column) {
    for (uint64_t row = 0; row < p.d.rows; ++row) {
      const auto at = static_cast<int64_t>(column) * p.d.leading + static_cast<int64_t>(row);
      double result = static_cast<double>(o.alpha) * Dot(p, o, row, column);
      if (o.beta != 0) {
        const auto of_c = static_cast<int64_t>(column) * p.c.leading + static_cast<int64_t>(row);
        result += static_cast<double>(o.beta) * Load(o.c, p.c.type, of_c);
      }
      o.d[at] = static_cast<float>(result);
    }
  }
  return cudaSuccess;
}

// Copies what an attribute has been given into `to`.
template <class T>
cublasStatus_t Set(T* to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return Misuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute's size");
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t Create(T** object, T value) {
  *object = new T(value);
  ++state.objects;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t Destroy(T* object) {
  delete object;
  --state.objects;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

namespace outrider::cuda_emulation {

void SetAlgorithms(std::vector<FakeAlgorithm> algorithms) {
  state.algorithms = std::move(algorithms);
  state.products.clear();
  state.searches = 0;
}
void FailNextCreate() { state.fail_create = true; }
const std::vector<size_t>& ProductsTried() { return state.products; }
int Searches() { return state.searches; }
std::vector<std::string> TakeMisuses() { return std::exchange(state.misuses, {}); }
int LiveCublasObjects() { return state.objects; }

}  // namespace outrider::cuda_emulation

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "an unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (std::exchange(state.fail_create, false)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return Create(handle, cublasLtContext());
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return Destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  return Create(description, {.compute = compute, .scale = scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return Destroy(description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  cublasLtMatmulDescOpaque_t& d = *description;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return Set(&d.of_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return Set(&d.of_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return Set(&d.a_scales, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return Set(&d.b_scales, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return Set(&d.a_scale_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return Set(&d.b_scale_mode, value, bytes);
  }
  return Misuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute that the double does not have");
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  return Create(layout, {.type = type, .rows = rows, .columns = columns, .leading = leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return Destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return Create(preference, {});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return Destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return Set(&preference->workspace, value, bytes);
  }
  uint32_t& alignment =
      preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
  const cublasStatus_t status = Set(&alignment, value, bytes);
  if (status == CUBLAS_STATUS_SUCCESS && !std::has_single_bit(alignment)) {
    return Misuse(CUBLAS_STATUS_INVALID_VALUE, "an alignment that is no power of two");
  }
  return status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  ++state.searches;
  *found = 0;
  const Product product = {*description, *a, *b, *c, *d};
  if (const std::string wrong = WhatIsWrong(product); !wrong.empty()) {
    return Misuse(CUBLAS_STATUS_INVALID_VALUE, wrong);
  }
  for (size_t i = 0; i < state.algorithms.size() && *found < wanted; ++i) {
    const FakeAlgorithm& algorithm = state.algorithms[i];
    const size_t workspace = WorkspaceOf(algorithm, product);
    if (!Takes(algorithm, product) || workspace > preference->workspace) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    const uint32_t* const alignment = preference->alignment;
    result = {.algo = {{kMark, i, alignment[0], alignment[1], alignment[2], alignment[3]}},
              .workspaceSize = workspace,
              .state = CUBLAS_STATUS_SUCCESS};
  }
  return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Product product = {*description, *a, *b, *c, *d};
  if (const std::string wrong = WhatIsWrong(product); !wrong.empty()) {
    return Misuse(CUBLAS_STATUS_INVALID_VALUE, wrong);
  }
  if (algorithm->data[0] != kMark) {
    return Misuse(CUBLAS_STATUS_INVALID_VALUE, "an algorithm that nobody suggested");
  }
  const FakeAlgorithm& known = state.algorithms[algorithm->data[1]];
  *result = {.algo = *algorithm,
             .workspaceSize = WorkspaceOf(known, product),
             .state = CUBLAS_STATUS_SUCCESS};
  return Takes(known, product) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  cublasLtMatmulHeuristicResult_t checked = {};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, description, a_layout, b_layout,
                                                        c_layout, d_layout, algorithm, &checked);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Product product = {*description, *a_layout, *b_layout, *c_layout, *d_layout};
  const Operands operands = {.a = a,
                             .b = b,
                             .c = c,
                             .d = static_cast<float*>(d),
                             .alpha = *static_cast<const float*>(alpha),
                             .beta = *static_cast<const float*>(beta)};
  if (const std::string wrong = WhatIsWrong(product, operands, *algorithm); !wrong.empty()) {
    return Misuse(CUBLAS_STATUS_INVALID_VALUE, wrong);
  }
  if (checked.workspaceSize > workspace_bytes) {
    return Misuse(CUBLAS_STATUS_INVALID_VALUE, "too little workspace");
  }
  if (workspace_bytes > 0 && (reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment != 0 ||
                              !IsTaken(workspace, workspace_bytes))) {
    return Misuse(CUBLAS_STATUS_INVALID_VALUE,
                  "a workspace outside of device memory, or unaligned");
  }
  const size_t index = algorithm->data[1];
  const FakeAlgorithm& chosen = state.algorithms[index];
  state.products.push_back(index);
  if (chosen.fails) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cudaError_t error = Enqueue(stream, [product, operands, took = chosen.milliseconds] {
    return Multiply(product, operands, took);
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
