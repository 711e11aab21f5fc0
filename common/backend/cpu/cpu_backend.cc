#include "common/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "common/backend/cpu/aligned_bytes.h"
#include "common/backend/cpu/bf16.h"
#include "common/backend/cpu/expert_routing.h"
#include "common/backend/cpu/flush_denormals.h"
#include "common/backend/cpu/kernels.h"
#include "common/backend/cpu/packed_panels.h"
#include "common/backend/cpu/rounded_rows.h"
#include "common/backend/cpu/thread_pool.h"
#include "common/backend/host_picks.h"
#include "common/base/check.h"
#include "common/rules/host_rounds.h"

namespace outrider {
namespace {

// Smaller work stays on the calling thread: waking a worker takes about as long.
constexpr int kGrainRows = 16;

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(AlignedBytes block) : block_(std::move(block)) {}
  void* data() override { return block_.data(); }
  size_t bytes() const override { return block_.size(); }

 private:
  AlignedBytes block_;
};

class RawBuffer final : public Buffer {
 public:
  RawBuffer(std::unique_ptr<std::byte[]> block, size_t bytes)
      : block_(std::move(block)), bytes_(bytes) {}
  void* data() override { return block_.get(); }
  size_t bytes() const override { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> block_;
  size_t bytes_;
};

const PanelMatrix& Panels(const PackedMatrix& matrix) {
  return static_cast<const PanelMatrix&>(matrix);
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuKernels& kernels, std::unique_ptr<ThreadPool> pool,
             const CpuBackendOptions& options)
      : kernels_(kernels),
        pool_(std::move(pool)),
        bf16_activations_(options.bf16_activations && kernels.matmul_bf16_dot != nullptr),
        int8_activations_(options.int8_activations && kernels.w4_int8.matmul != nullptr) {}

  std::string Describe() const override {
    return std::string("cpu (") + kernels_.name + (bf16_activations_ ? ", bf16 activations" : "") +
           (int8_activations_ ? ", int8 activations" : "") + ", " +
           std::to_string(pool_->threads()) + (pool_->threads() == 1 ? " thread)" : " threads)");
  }

  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    OUTRIDER_ASSIGN(AlignedBytes block, AlignedBytes::Allocate(bytes));
    return std::unique_ptr<Buffer>(std::make_unique<HostBuffer>(std::move(block)));
  }

  // Not zeroed, so that pages that are never written never become resident.
  Result<std::unique_ptr<Buffer>> AllocateHost(size_t bytes) override {
    std::unique_ptr<std::byte[]> block(new (std::nothrow) std::byte[bytes]);
    if (block == nullptr)
      return ResourceExhausted("no memory for " + std::to_string(bytes) + " bytes");
    return std::unique_ptr<Buffer>(std::make_unique<RawBuffer>(std::move(block), bytes));
  }

  void CopyIn(void* device, const void* host, size_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(host), bytes, static_cast<std::byte*>(device));
  }

  void CopyOut(void* host, const void* device, size_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(device), bytes, static_cast<std::byte*>(host));
  }

  void CopyKvSlots(std::span<const KvLayer> layers, const AttentionShape& shape,
                   std::span<const SlotCopy> copies) override {
    for (const SlotCopy& copy : copies) {
      for (const KvLayer& kv : layers) {
        switch (kv.type) {
          case KvType::kF32: CopySlot<float>(kv, shape, copy); break;
          case KvType::kF16:
          case KvType::kBf16: CopySlot<uint16_t>(kv, shape, copy); break;
          case KvType::kFp8: CopySlot<uint8_t>(kv, shape, copy); break;
        }
      }
    }
  }

  void Wait() override {}

  Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& weight, WeightType type) override {
    OUTRIDER_ASSIGN(std::unique_ptr<PanelMatrix> packed,
                    PanelMatrix::Pack(weight, type, pool_->threads(), fixes_w8a16()));
    return std::unique_ptr<PackedMatrix>(std::move(packed));
  }

  Result<std::unique_ptr<PackedMatrix>> Pack(const QuantizedMatrix& weight, WeightType type,
                                             WeightType /*floats*/) override {
    OUTRIDER_ASSIGN(std::unique_ptr<PanelMatrix> packed,
                    PanelMatrix::Pack(weight, type, pool_->threads(), fixes_w8a16()));
    return std::unique_ptr<PackedMatrix>(std::move(packed));
  }

  Result<std::unique_ptr<ExpertMatrices>> GroupExperts(
      std::vector<std::unique_ptr<PackedMatrix>> matrices) override {
    return std::make_unique<ExpertMatrices>(std::move(matrices));
  }

  void Embed(const PackedMatrix& table, const TokenId* tokens, int rows, float* out) override {
    for (int r = 0; r < rows; ++r) {
      Panels(table).Unpack(tokens[r], out + static_cast<size_t>(r) * table.in_features());
    }
  }

  void MatMul(const PackedMatrix& w, const float* x, int rows, const float* bias, bool accumulate,
              float* out) override {
    const FlushDenormals flush;
    Product product{.weights = &Panels(w),
                    .x = x,
                    .rows = rows,
                    .bias = bias,
                    .accumulate = accumulate,
                    .y = out};
    if (!product.weights->column_order().empty()) ReorderInputs(product);
    const FixedKernels* const fixed = FixedKernelsFor(*product.weights);
    if (fixed != nullptr) {
      RoundToFixed(product, *fixed);
    } else if (product.weights->has_offsets()) {
      SumInputs(product);
    }
    void (*kernel)(const Product&, int, int) = nullptr;
    switch (product.weights->type()) {
      case WeightType::kF16: OUTRIDER_CHECK(false);  // Pack refuses it
      case WeightType::kF32: kernel = kernels_.matmul_f32; break;
      case WeightType::kBf16:
        kernel = bf16_activations_ ? kernels_.matmul_bf16_dot : kernels_.matmul_bf16;
        if (bf16_activations_) RoundToBf16(product);
        break;
      case WeightType::kW8A16:
        kernel = fixed != nullptr ? fixed->matmul : kernels_.matmul_w8a16;
        break;
      case WeightType::kW4A16:
        kernel = fixed != nullptr ? fixed->matmul : kernels_.matmul_w4a16;
        break;
      case WeightType::kFp8: kernel = kernels_.matmul_fp8; break;
      case WeightType::kMxfp4:
        kernel = fixed != nullptr ? fixed->matmul : kernels_.matmul_mxfp4;
        break;
      case WeightType::kW8A8:
        kernel = kernels_.matmul_w8a8;
        RoundToInt8(product);
        break;
    }
    // Four panels at a time hide the latency of one row's sums.
    pool_->Run(product.weights->panel_count(), 4,
               [&](int begin, int end, int) { kernel(product, begin, end); });
  }

  void RmsNorm(const float* x, const float* gain, int rows, int n, int stride, float eps,
               bool accumulate, float* out, Consumers /*consumers*/) override {
    const FlushDenormals flush;
    pool_->Run(rows, kGrainRows, [&](int begin, int end, int) {
      const size_t offset = static_cast<size_t>(begin) * stride;
      kernels_.rms_norm(x + offset, gain, end - begin, n, stride, eps, accumulate, out + offset);
    });
  }

  void RmsNormHeads(float* x, const float* gain, int rows, int heads, int n, int stride,
                    float eps) override {
    for (int h = 0; h < heads; ++h, x += n) {
      RmsNorm(x, gain, rows, n, stride, eps, false, x, Consumers::kAny);
    }
  }

  void RopeAndWriteKv(const BatchLayout& batch, const AttentionShape& shape, const HeadNorms& norms,
                      const float* cos_sin, float* qkv, const KvLayer& kv) override {
    if (norms.q != nullptr) {
      const int q_width = shape.num_heads * shape.head_dim;
      const int stride = q_width + 2 * shape.num_kv_heads * shape.head_dim;
      RmsNormHeads(qkv, norms.q, batch.rows, shape.num_heads, shape.head_dim, stride, norms.eps);
      RmsNormHeads(qkv + q_width, norms.k, batch.rows, shape.num_kv_heads, shape.head_dim, stride,
                   norms.eps);
    }
    const FlushDenormals flush;
    pool_->Run(batch.rows, kGrainRows, [&](int begin, int end, int) {
      kernels_.rope_and_write_kv(batch, shape, cos_sin, qkv, kv, begin, end);
    });
  }

  void PagedAttention(const BatchLayout& batch, const AttentionShape& shape, const float* qkv,
                      const KvLayer& kv, float* out, Consumers /*consumers*/) override {
    const FlushDenormals flush;
    const Attention attention{&batch, shape, qkv, kv, out};
    // A multiple of 16 floats keeps every thread's share on cache-line boundaries.
    const size_t share = (AttentionScratchFloats(batch, shape) + 15) / 16 * 16;
    float* scratch = Scratch<float>(attention_scratch_, share * pool_->threads());
    pool_->Run(AttentionUnits(batch, shape), 1, [&](int begin, int end, int thread) {
      kernels_.attention(attention, begin, end, scratch + thread * share);
    });
  }

  void RouteRows(const float* logits, int rows, const RouterShape& shape,
                 const ExpertRouting& routing) override {
    const FlushDenormals flush;
    pool_->Run(rows, kGrainRows,
               [&](int begin, int end, int) { ChooseExperts(logits, shape, routing, begin, end); });
    OrderPairs(shape, routing, rows);
  }

  // One expert after another: its input rows are contiguous already, or are gathered.
  void ExpertMatMul(const ExpertMatrices& w, const RouterShape& shape, const ExpertRouting& routing,
                    int /*rows*/, const float* x, bool x_by_row, const float* bias,
                    float* out) override {
    const auto in = static_cast<size_t>(w.in_features());
    const auto width = static_cast<size_t>(w.out_features());
    for (int e = 0; e < shape.experts; ++e) {
      const auto first = static_cast<size_t>(routing.expert_begin[e]);
      const int count = routing.expert_begin[e + 1] - routing.expert_begin[e];
      if (count == 0) continue;
      const float* expert_x = x + first * in;
      if (x_by_row) {
        auto* const gathered = Scratch<float>(expert_scratch_, static_cast<size_t>(count) * in);
        GatherRows(x, routing.sorted_rows + first, count, w.in_features(), gathered);
        expert_x = gathered;
      }
      const float* const expert_bias =
          bias == nullptr ? nullptr : bias + static_cast<size_t>(e) * width;
      MatMul(w[e], expert_x, count, expert_bias, /*accumulate=*/false, out + first * width);
    }
  }

  void CombineExperts(const float* y, const RouterShape& shape, const ExpertRouting& routing,
                      int rows, int n, bool accumulate, float* out) override {
    const FlushDenormals flush;
    pool_->Run(rows, kGrainRows, [&](int begin, int end, int) {
      CombineRows(y, shape, routing, n, accumulate, out, begin, end);
    });
  }

  void Glu(Activation activation, const float* gate_up, int rows, int n, float* out,
           Consumers /*consumers*/) override {
    const FlushDenormals flush;
    pool_->Run(rows, kGrainRows, [&](int begin, int end, int) {
      const size_t offset = static_cast<size_t>(begin) * n;
      kernels_.glu(activation, gate_up + 2 * offset, end - begin, n, out + offset);
    });
  }

  void Scale(float* x, int rows, int n, float factor) override {
    const FlushDenormals flush;
    pool_->Run(rows, kGrainRows, [&](int begin, int end, int) {
      kernels_.scale(x + static_cast<size_t>(begin) * n, static_cast<size_t>(end - begin) * n,
                     factor);
    });
  }

  // A row may be a whole vocabulary, whose tanh is worth waking a worker.
  void SoftCap(float* x, int rows, int n, float cap) override {
    const FlushDenormals flush;
    pool_->Run(rows, 1, [&](int begin, int end, int) {
      kernels_.soft_cap(x + static_cast<size_t>(begin) * n, static_cast<size_t>(end - begin) * n,
                        cap);
    });
  }

  void GatherRows(const float* x, const int32_t* rows, int count, int n, float* out) override {
    for (int i = 0; i < count; ++i) {
      std::memcpy(out + static_cast<size_t>(i) * n, x + static_cast<size_t>(rows[i]) * n,
                  n * sizeof(float));
    }
  }

  Decisions Decide(const RoundBatch& batch, const LogitRows& rows) override {
    return rounds_.Decide(batch, rows);
  }

  std::span<const PickedRow> Draft(const PickBatch& batch, float* rows, int vocab) override {
    return picks_.Read(batch, rows, vocab);
  }

 private:
  // T has the size of an element.
  template <class T>
  static void CopySlot(const KvLayer& kv, const AttentionShape& shape, const SlotCopy& copy) {
    auto* const keys = static_cast<T*>(kv.keys);
    auto* const values = static_cast<T*>(kv.values);
    for (int h = 0; h < shape.num_kv_heads; ++h) {
      const KvPlace source(shape, copy.from, h);
      const KvPlace target(shape, copy.to, h);
      for (int i = 0; i < shape.head_dim; ++i) {
        keys[target.key + static_cast<size_t>(i) * shape.page_tokens] =
            keys[source.key + static_cast<size_t>(i) * shape.page_tokens];
      }
      std::memmove(values + target.value, values + source.value, shape.head_dim * sizeof(T));
    }
  }

  // Makes the words of rounded activations that the product's kernel reads, `per_word` for each
  // word of weights, calling `row` for each row.
  template <class Row>
  void RoundRows(Product& product, size_t per_word, const Row& row) {
    const size_t stride = RoundedRowStride(product.weights->words() * per_word);
    const size_t in = product.weights->in_features();
    auto* x_words = Scratch<uint32_t>(word_scratch_, product.rows * stride);
    pool_->Run(product.rows, kGrainRows, [&](int begin, int end, int) {
      for (int r = begin; r < end; ++r) row(r, product.x + r * in, x_words + r * stride);
    });
    product.x_words = x_words;
  }

  // Permutes the inputs into the column order of the weights.
  void ReorderInputs(Product& product) {
    const std::span<const int32_t> order = product.weights->column_order();
    auto* const reordered = Scratch<float>(order_scratch_, product.rows * order.size());
    pool_->Run(product.rows, kGrainRows, [&](int begin, int end, int) {
      for (int r = begin; r < end; ++r) {
        const float* const from = product.x + static_cast<size_t>(r) * order.size();
        float* const to = reordered + static_cast<size_t>(r) * order.size();
        for (size_t k = 0; k < order.size(); ++k) to[k] = from[order[k]];
      }
    });
    product.x = reordered;
  }

  void SumInputs(Product& product) {
    const PanelMatrix& weights = *product.weights;
    const auto in = static_cast<size_t>(weights.in_features());
    const auto groups = static_cast<size_t>(weights.groups());
    auto* const sums = Scratch<float>(sum_scratch_, product.rows * groups);
    pool_->Run(product.rows, kGrainRows, [&](int begin, int end, int) {
      for (int r = begin; r < end; ++r) {
        kernels_.sum_groups(product.x + r * in, weights.in_features(), weights.group_size(),
                            sums + r * groups);
      }
    });
    product.x_sums = sums;
  }

  void RoundToInt8(Product& product) {
    const int in = product.weights->in_features();
    auto* scales = Scratch<float>(scale_scratch_, product.rows);
    RoundRows(product, 1, [&](int r, const float* x, uint32_t* words) {
      scales[r] = kernels_.quantize_row(x, in, reinterpret_cast<uint8_t*>(words));
    });
    product.x_scales = scales;
  }

  bool fixes_w8a16() const { return kernels_.w8_fixed.matmul != nullptr; }

  // The kernels for a matrix if its activations are kept in fixed point, else nullptr.
  const FixedKernels* FixedKernelsFor(const PanelMatrix& weights) const {
    const FixedKernels* fixed = nullptr;
    switch (weights.type()) {
      case WeightType::kW8A16:
        if (!weights.has_dot_order()) return nullptr;
        fixed = int8_activations_ ? &kernels_.w8_int8 : &kernels_.w8_fixed;
        break;
      case WeightType::kW4A16:
        fixed = int8_activations_ ? &kernels_.w4_int8 : &kernels_.w4_fixed;
        break;
      case WeightType::kMxfp4:
        fixed = int8_activations_ ? &kernels_.mxfp4_int8 : &kernels_.mxfp4_fixed;
        break;
      case WeightType::kF32:
      case WeightType::kF16:
      case WeightType::kBf16:
      case WeightType::kW8A8:
      case WeightType::kFp8: return nullptr;
    }
    const bool has_kernels = fixed->matmul != nullptr && weights.group_size() <= kMaxFixedGroup;
    return has_kernels ? fixed : nullptr;
  }

  void RoundToFixed(Product& product, const FixedKernels& kernels) {
    const PanelMatrix& weights = *product.weights;
    const auto groups = static_cast<size_t>(weights.groups());
    auto* const steps = Scratch<float>(scale_scratch_, product.rows * groups);
    auto* const sums = Scratch<float>(sum_scratch_, product.rows * groups);
    const size_t row_starts = groups * static_cast<size_t>(kernels.digits);
    auto* const starts = Scratch<int32_t>(start_scratch_, product.rows * row_starts);
    const size_t per_word = FixedWords(StepsPerWord(weights.type()), kernels.digits);
    RoundRows(product, per_word, [&](int r, const float* x, uint32_t* words) {
      kernels.fix_row(x, weights.in_features(), weights.group_size(),
                      {words, steps + r * groups, sums + r * groups, starts + r * row_starts});
    });
    product.x_scales = steps;
    product.x_sums = sums;
    product.x_starts = starts;
  }

  void RoundToBf16(Product& product) {
    const int in = product.weights->in_features();
    RoundRows(product, 1, [&](int, const float* x, uint32_t* words) {
      auto* bits = reinterpret_cast<uint16_t*>(words);
      for (int i = 0; i < in; ++i) bits[i] = Narrow<uint16_t>(x[i]);
      if (in % 2 != 0) bits[in] = 0;
    });
  }

  // Working memory that grows to the largest batch seen. It is small compared to the activations of
  // the same batch, for which the model's allocation was checked.
  template <class T>
  static T* Scratch(AlignedBytes& block, size_t count) {
    if (block.size() < count * sizeof(T)) {
      Result<AlignedBytes> larger = AlignedBytes::Allocate(2 * count * sizeof(T));
      OUTRIDER_CHECK(larger.ok());
      block = std::move(larger).value();
    }
    return reinterpret_cast<T*>(block.data());
  }

  CpuKernels kernels_;
  std::unique_ptr<ThreadPool> pool_;
  bool bf16_activations_, int8_activations_;
  HostRounds rounds_;
  HostPicks picks_;
  AlignedBytes attention_scratch_;
  AlignedBytes word_scratch_;
  AlignedBytes scale_scratch_;
  AlignedBytes order_scratch_;
  AlignedBytes sum_scratch_;
  AlignedBytes start_scratch_;
  AlignedBytes expert_scratch_;
};

}  // namespace

Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options) {
  OUTRIDER_ASSIGN(std::unique_ptr<ThreadPool> pool,
                  ThreadPool::Create(options.threads, options.cores));
  return std::unique_ptr<Backend>(
      std::make_unique<CpuBackend>(ChooseKernels(), std::move(pool), options));
}

}  // namespace outrider
