// The batched operations of a transformer on one device. Model code is written once, against this
// interface. All float pointers are memory of this backend (Allocate); activations are f32,
// row-major [rows, n]. Calls enqueue work in order; Wait() is the only synchronisation point (a
// no-op on the CPU, where each call completes before it returns).
//
// Determinism: a row's result does not depend on the other rows in the call (batch invariance), so
// a ragged batch gives bit-identical logits to a batch of one. Matrix products on a GPU are the
// exception (docs/gpu.md).
//
// Thread: the owner of the Model; an implementation may use its own thread pool inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/backend/batch_layout.h"
#include "common/backend/buffer.h"
#include "common/backend/device_ops.h"
#include "common/backend/experts.h"
#include "common/backend/packed_matrix.h"
#include "common/backend/pick_batch.h"
#include "common/base/status.h"
#include "common/rules/round_batch.h"
#include "common/tensor/quantized_matrix.h"
#include "common/tensor/tensor.h"

namespace outrider {

// Which ops consume the output of an op before it is overwritten.
enum class Consumers : uint8_t {
  kAny,
  // Only MatMul, starting at the first row, with matrices of the model's weight type. A backend
  // whose products read rounded rows then need not write the floats.
  kProducts,
};

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu (AVX3, 1 thread)"
  virtual std::string Describe() const = 0;

  // nullptr when the backend computes in host memory (the CPU).
  virtual DeviceOps* device() { return nullptr; }
  // kUnimplemented for an attention shape that it has no kernel for.
  virtual Status CheckShape(const AttentionShape& shape) const {
    if (shape.head_dim % 8 == 0) return {};
    return Unimplemented("head_dim " + std::to_string(shape.head_dim) + " is not a multiple of 8");
  }
  // kResourceExhausted when out of memory.
  virtual Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  // Host memory that CopyOut fills fastest; uninitialised. kResourceExhausted when out of memory.
  virtual Result<std::unique_ptr<Buffer>> AllocateHost(size_t bytes) = 0;
  // `host` may be overwritten once the call returns.
  virtual void CopyIn(void* device, const void* host, size_t bytes) = 0;
  // `host` holds the bytes after the next Wait().
  virtual void CopyOut(void* host, const void* device, size_t bytes) = 0;
  // Performs the copies in order, on the keys and values of every layer.
  virtual void CopyKvSlots(std::span<const KvLayer> layers, const AttentionShape& shape,
                           std::span<const SlotCopy> copies) = 0;
  virtual void Wait() = 0;

  // `weight` is [out, in] of f32, f16 or bf16 in host memory (a view into the mapped file).
  // kInvalidArgument for any other shape, kResourceExhausted when out of memory.
  virtual Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& weight, WeightType type) = 0;
  // The same for quantized codes, which are kept as they are: `type` is the codes' type, kW8A8 for
  // 8-bit integers with one scale per row. `floats` is the type to which they are widened for a
  // product if this backend has none for codes.
  virtual Result<std::unique_ptr<PackedMatrix>> Pack(const QuantizedMatrix& weight, WeightType type,
                                                     WeightType floats) = 0;

  // Groups the matrices of a mixture's experts for ExpertMatMul. REQUIRES: at least one, all packed
  // by this backend, of equal shape and for activations of one type. kResourceExhausted when out of
  // memory.
  virtual Result<std::unique_ptr<ExpertMatrices>> GroupExperts(
      std::vector<std::unique_ptr<PackedMatrix>> matrices) = 0;

  // out[rows, hidden] = rows of the packed embedding `table` (tied or not).
  virtual void Embed(const PackedMatrix& table, const TokenId* tokens, int rows, float* out) = 0;
  // out[rows, out_features] = x W^T (+ bias), or out += when `accumulate`.
  virtual void MatMul(const PackedMatrix& w, const float* x, int rows, const float* bias,
                      bool accumulate, float* out) = 0;
  // out = x / rms(x) * gain, or out += when `accumulate` (then x is not out, and `consumers` is
  // kAny), for each row of n. Rows of x and out are `stride` elements apart.
  virtual void RmsNorm(const float* x, const float* gain, int rows, int n, int stride, float eps,
                       bool accumulate, float* out, Consumers consumers) = 0;
  // RmsNorm in place of `heads` runs of n consecutive values in each row. Rows are `stride`
  // elements apart.
  virtual void RmsNormHeads(float* x, const float* gain, int rows, int heads, int n, int stride,
                            float eps) = 0;
  // qkv is [rows, (num_heads + 2 num_kv_heads) * head_dim], head_dim a multiple of 8. Normalises
  // each head of q and k as RmsNormHeads does, if there are norms, rotates the first n = head_dim -
  // unrotated values of each head of q and k in place (HF's rotate_half) and writes k and v to the
  // cache. cos_sin is [max_positions, n]: n/2 cosines, then n/2 sines; it is not read when n is 0.
  virtual void RopeAndWriteKv(const BatchLayout& batch, const AttentionShape& shape,
                              const HeadNorms& norms, const float* cos_sin, float* qkv,
                              const KvLayer& kv) = 0;
  // out[rows, num_heads * head_dim]: each row attends to its sequence's context, to itself and to
  // its ancestors among the new rows (in a chain, all earlier ones).
  virtual void PagedAttention(const BatchLayout& batch, const AttentionShape& shape,
                              const float* qkv, const KvLayer& kv, float* out,
                              Consumers consumers) = 0;
  // Like MatMul without `accumulate`, for a router in f32. On every backend a row's bits depend on
  // that row alone, because a different bit may select a different expert.
  virtual void RouterLogits(const PackedMatrix& router, const float* x, int rows, const float* bias,
                            float* logits) {
    MatMul(router, x, rows, bias, /*accumulate=*/false, logits);
  }
  // Chooses the experts of each row from logits[rows, experts] and sorts the pairs into `routing`.
  // Among equal logits the expert with the lower index comes first; NaN counts as the largest, and
  // makes all weights of its row NaN. REQUIRES: experts <= kMaxExperts, top_k <= kMaxExpertsOfARow.
  virtual void RouteRows(const float* logits, int rows, const RouterShape& shape,
                         const ExpertRouting& routing) = 0;
  // out[rows * top_k, out_features], by sorted index: x W^T (+ bias) with the matrix and the bias
  // [experts, out_features] of the pair's expert. x has one row per row of the batch if `x_by_row`,
  // otherwise one per pair, in sorted order.
  virtual void ExpertMatMul(const ExpertMatrices& w, const RouterShape& shape,
                            const ExpertRouting& routing, int rows, const float* x, bool x_by_row,
                            const float* bias, float* out) = 0;
  // out[rows, n] = the weighted sum over each row's pairs of y[rows * top_k, n], which is in sorted
  // order, or out += when `accumulate`. Pairs are added in the order of `chosen`.
  virtual void CombineExperts(const float* y, const RouterShape& shape,
                              const ExpertRouting& routing, int rows, int n, bool accumulate,
                              float* out) = 0;
  // gate_up is [rows, 2n]: out[rows, n] = activation(gate) * up.
  virtual void Glu(Activation activation, const float* gate_up, int rows, int n, float* out,
                   Consumers consumers) = 0;
  // MatMul and Glu in one op: w is the gates' rows, then as many of up, [2n, in]. `gate_up` [rows,
  // 2n] is working memory.
  virtual void GatedMatMul(const PackedMatrix& w, const float* x, int rows, const float* bias,
                           Activation activation, float* gate_up, float* out, Consumers consumers) {
    MatMul(w, x, rows, bias, /*accumulate=*/false, gate_up);
    Glu(activation, gate_up, rows, w.out_features() / 2, out, consumers);
  }
  // x[rows, n] *= factor.
  virtual void Scale(float* x, int rows, int n, float factor) = 0;
  // Each of x[rows, n] becomes cap * tanh(x / cap).
  virtual void SoftCap(float* x, int rows, int n, float cap) = 0;
  // out[i] = x[rows[i]], rows of n.
  virtual void GatherRows(const float* x, const int32_t* rows, int count, int n, float* out) = 0;

  // Verifies the batch's rounds against logits rows where they are in memory (and overwrites them);
  // waits for that and for all work enqueued before. The result is valid until the next Decide.
  // REQUIRES: `rows` has batch.nodes() rows; drafts are valid as defined in
  // common/spec/draft_tree.h.
  virtual Decisions Decide(const RoundBatch& batch, const LogitRows& rows) = 0;

  // Picks the entries from which draft tokens are sampled: pick i reads row i of `rows`
  // [batch.size(), vocab] where the rows are in memory (and overwrites it). Waits for that and for
  // all work enqueued before. Element i of the result belongs to row i; valid until the next Draft.
  // REQUIRES: no chains; 0 < count and 0 < allowed <= vocab in each pick; vocab <= kMaxVocabulary.
  virtual std::span<const PickedRow> Draft(const PickBatch& batch, float* rows, int vocab) = 0;
};

}  // namespace outrider
