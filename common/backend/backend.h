// The batched operations that a transformer is made of, on one device. The model file is written
// once against this interface. All float pointers are memory of this backend (Allocate);
// activations are f32, row-major [rows, n]. Calls enqueue work in order; Wait() is the only
// synchronisation point (a no-op on the CPU, where calls run at once).
//
// Determinism: a row's result does not depend on how many other rows are in the call (batch
// invariance), so that a ragged batch gives bit-equal logits to a batch of one. Matrix products on
// a GPU are the exception (docs/gpu.md).
//
// Thread: the owner of the Model; an implementation may use its own pool inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/backend/pick_batch.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/math/host_device.h"
#include "common/rules/round_batch.h"
#include "common/tensor/tensor.h"

namespace outrider {

// The format that a weight matrix is kept in. kF16: on a GPU alone. kInt8: on the CPU alone;
// symmetric, one scale per output row. Whatever depends on the format is a switch over all of them
// without a default, so that the compiler names every place that a new format has to be added to.
enum class WeightType { kBf16, kF16, kF32, kInt8 };

// A weight matrix packed once for this backend's product y[out] = W[out, in] x[in]: its values, the
// scales that its format has, and the format.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int out_features() const = 0;
  virtual int in_features() const = 0;
  virtual size_t bytes() const = 0;
};

// Device memory; zero-filled when new.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
  float* floats() { return static_cast<float*>(data()); }
};

// One layer's paged keys and values: pages * page_tokens * kv_heads * head_dim each, of `dtype`.
// How a page is laid out inside is the backend's own affair.
struct KvLayer {
  void* keys = nullptr;
  void* values = nullptr;
  Dtype dtype = Dtype::kF32;  // the CPU knows no kF16
};

// The attention of one layer. The layers of a model have all in common but what follows
// page_tokens.
struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;
  int sliding_window = 0;  // positions that a row sees, itself the last; 0: all
  float soft_cap = 0;      // a score s becomes soft_cap * tanh(s / soft_cap); 0: it stays
  float query_scalar = 0;  // a score is q.k / sqrt(query_scalar); 0: of head_dim

  // query_scalar, or its default.
  OUTRIDER_HD float ScoreScalar() const {
    return query_scalar > 0 ? query_scalar : static_cast<float>(head_dim);
  }
};

// What the gate of an MLP goes through. kSilu: x / (1 + exp(-x)). kGeluTanh: the approximation of
// GELU by tanh (Hendrycks and Gimpel 2016, section 2).
enum class Activation { kSilu, kGeluTanh };

// The ragged batch as the kernels read it; host arrays, flattened by model/ragged_batch.h.
// Rows of all sequences stand one behind another.
struct BatchLayout {
  int rows = 0;
  int sequences = 0;
  const TokenId* tokens = nullptr;     // [rows]
  const int32_t* positions = nullptr;  // [rows] RoPE position: length + depth
  const int32_t* slots = nullptr;  // [rows] where the row's K/V goes: page * page_tokens + offset
  const int32_t* row_sequence = nullptr;  // [rows]
  const int32_t* row_begin = nullptr;     // [sequences + 1]
  const int32_t* context = nullptr;       // [sequences] tokens held before this batch
  const int32_t* page_begin = nullptr;    // [sequences + 1] into pages
  const int32_t* pages = nullptr;         // page indexes of each sequence in order
  // [rows] parent row within the sequence's share or -1; nullptr when every sequence is a chain.
  const int32_t* parents = nullptr;
  // [logit_row_count] rows whose logits are wanted, ascending; for GatherRows.
  const int32_t* logit_rows = nullptr;
  int logit_row_count = 0;
  // Windows of the layers' attention, each once; empty: all have that of the pass's shape.
  std::span<const int32_t> windows;
};

// What a device has, in bytes. All zeros: not known, or not limited in a way that could be planned.
struct DeviceMemory {
  int64_t free = 0;
  int64_t total = 0;
};

// What a device ran as one graph so far, a forward pass or the depths of a draft behind its first,
// and the graphs made for that.
struct GraphCounts {
  int64_t launches = 0;
  int64_t captures = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu (AVX3, 1 thread)"
  virtual std::string Describe() const = 0;

  virtual DeviceMemory Memory() const { return {}; }
  // kUnimplemented for attention that it has no kernel for.
  virtual Status CheckShape(const AttentionShape& shape) const {
    if (shape.head_dim % 8 == 0) return {};
    return Unimplemented("head_dim " + std::to_string(shape.head_dim) + " is no multiple of 8");
  }
  // kResourceExhausted when memory is out.
  virtual Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  // Host memory that CopyOut fills fastest; not filled with anything. kResourceExhausted when
  // memory is out.
  virtual Result<std::unique_ptr<Buffer>> AllocateHost(size_t bytes) = 0;
  // `host` may be written again when the call returns.
  virtual void CopyIn(void* device, const void* host, size_t bytes) = 0;
  // `host` holds the bytes after the next Wait().
  virtual void CopyOut(void* host, const void* device, size_t bytes) = 0;
  // Carries out the copies in their order, in the keys and values of each layer.
  virtual void CopyKvSlots(std::span<const KvLayer> layers, const AttentionShape& shape,
                           std::span<const SlotCopy> copies) = 0;
  virtual void Wait() = 0;

  // Calls `ops`, the ops of one forward pass over `batch`, or does the same without calling them
  // because it has kept what they came to the last time. REQUIRES: the batch's arrays stay as they
  // are until the next RunPass or Wait(); `ops` reads no other host memory and does nothing but
  // call ops, those of the layers with `shape`, in one of the batch's windows, over caches of type
  // `kv`. For equal numbers of rows and wanted rows, with tokens or without, they are the same, on
  // the same memory and with the same numbers.
  virtual void RunPass(const BatchLayout& /*batch*/, const AttentionShape& /*shape*/, Dtype /*kv*/,
                       const std::function<void()>& ops) {
    ops();
  }

  // `weight` is [out, in] of f32, f16 or bf16 in host memory (a view into the mapped file).
  // kInvalidArgument for another shape, kResourceExhausted when memory is out.
  virtual Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& weight, WeightType type) = 0;

  // out[rows, hidden] = rows of the embedding table that `matrix` packs (tied or not).
  virtual void Embed(const PackedMatrix& table, const TokenId* tokens, int rows, float* out) = 0;
  // out[rows, out_features] = x W^T (+ bias), or out += when `accumulate`.
  virtual void MatMul(const PackedMatrix& w, const float* x, int rows, const float* bias,
                      bool accumulate, float* out) = 0;
  // out = x / rms(x) * gain, or out += when `accumulate` (then x is not out), each row of n.
  // `stride` is the distance of rows in x and out.
  virtual void RmsNorm(const float* x, const float* gain, int rows, int n, int stride, float eps,
                       bool accumulate, float* out) = 0;
  // RmsNorm in place of `heads` runs of n values in each row, one behind another. Rows are `stride`
  // apart.
  virtual void RmsNormHeads(float* x, const float* gain, int rows, int heads, int n, int stride,
                            float eps) = 0;
  // qkv is [rows, (num_heads + 2 num_kv_heads) * head_dim], head_dim a multiple of 8. Rotates q and
  // k in place (HF's rotate-half) and writes k and v into the cache. cos_sin is [max_positions,
  // head_dim]: head_dim/2 cosines, then head_dim/2 sines.
  virtual void RopeAndWriteKv(const BatchLayout& batch, const AttentionShape& shape,
                              const float* cos_sin, float* qkv, const KvLayer& kv) = 0;
  // out[rows, num_heads * head_dim]: each row attends to its sequence's context and to itself and
  // its ancestors among the new rows (all earlier ones in a chain).
  virtual void PagedAttention(const BatchLayout& batch, const AttentionShape& shape,
                              const float* qkv, const KvLayer& kv, float* out) = 0;
  // gate_up is [rows, 2n]: out[rows, n] = activation(gate) * up.
  virtual void Glu(Activation activation, const float* gate_up, int rows, int n, float* out) = 0;
  // x[rows, n] *= factor.
  virtual void Scale(float* x, int rows, int n, float factor) = 0;
  // Each of x[rows, n] becomes cap * tanh(x / cap).
  virtual void SoftCap(float* x, int rows, int n, float cap) = 0;
  // out[i] = x[rows[i]], rows of n.
  virtual void GatherRows(const float* x, const int32_t* rows, int count, int n, float* out) = 0;

  // Decides the batch's rounds over rows of logits where they are (they are overwritten); waits for
  // that and all that was enqueued before. Valid until the next Decide. REQUIRES: `rows` has
  // batch.nodes() rows; drafts are valid as common/spec/draft_tree.h has it.
  virtual Decisions Decide(const RoundBatch& batch, const LogitRows& rows) = 0;

  // Whether Draft may be called: what is drafted from is read on the device, and no row need come
  // to the host.
  virtual bool Drafts() const { return false; }
  // Reads the batch's rows (which are overwritten); waits for that and all that was enqueued
  // before. By row of the batch, until the next Draft.
  virtual std::span<const PickedRow> Draft(const PickBatch& /*batch*/, float* /*rows*/,
                                           int /*vocab*/) {
    OUTRIDER_CHECK(false);
    return {};
  }

  // A draft of several depths in one go, where it Drafts. The ops(d) of
  // passes[d], as RunPass has them, make `rows`, one of each chain (PickBatch::AddChain) in their
  // order; behind them a token of each is drawn, which EmbedDrawn feeds to the next pass, whose
  // layout has no tokens. Waits for all of it: what was read, by depth and then by chain, until
  // the next Draft or RunChains.
  virtual std::span<const PickedRow> RunChains(std::span<const BatchLayout> /*passes*/,
                                               const AttentionShape& /*shape*/, Dtype /*kv*/,
                                               const PickBatch& /*draws*/, float* /*rows*/,
                                               int /*vocab*/,
                                               const std::function<void(int depth)>& /*ops*/) {
    OUTRIDER_CHECK(false);
    return {};
  }
  // The Embed of the tokens that the depth before has drawn.
  virtual void EmbedDrawn(const PackedMatrix& /*table*/, int /*rows*/, float* /*out*/) {
    OUTRIDER_CHECK(false);
  }

  // Bytes that were copied to the host so far, where that is another memory than the device's.
  virtual int64_t bytes_to_host() const { return 0; }
  virtual GraphCounts graph_counts() const { return {}; }
};

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
