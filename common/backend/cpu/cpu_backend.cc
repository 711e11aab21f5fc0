// The CPU backend in plain loops.
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "common/backend/backend.h"

namespace outrider {
namespace {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(size_t bytes) : words_((bytes + 7) / 8), bytes_(bytes) {}
  void* data() override { return words_.data(); }
  size_t bytes() const override { return bytes_; }

 private:
  std::vector<uint64_t> words_;
  size_t bytes_;
};

class DenseMatrix final : public PackedMatrix {
 public:
  DenseMatrix(int out, int in) : values(static_cast<size_t>(out) * in), out_(out), in_(in) {}
  int out_features() const override { return out_; }
  int in_features() const override { return in_; }
  size_t bytes() const override { return values.size() * sizeof(float); }
  const float* row(int i) const { return values.data() + static_cast<size_t>(i) * in_; }

  std::vector<float> values;

 private:
  int out_;
  int in_;
};

const DenseMatrix& Dense(const PackedMatrix& m) { return static_cast<const DenseMatrix&>(m); }

float LoadKv(const void* base, Dtype dtype, size_t index) {
  if (dtype == Dtype::kF32) return static_cast<const float*>(base)[index];
  return Bf16ToFloat(static_cast<const uint16_t*>(base)[index]);
}

void StoreKv(void* base, Dtype dtype, size_t index, float value) {
  if (dtype == Dtype::kF32) {
    static_cast<float*>(base)[index] = value;
  } else {
    static_cast<uint16_t*>(base)[index] = FloatToBf16(value);
  }
}

class CpuBackend final : public Backend {
 public:
  std::string Describe() const override { return "cpu (plain)"; }

  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    try {
      return std::unique_ptr<Buffer>(std::make_unique<HostBuffer>(bytes));
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("cpu backend: " + std::to_string(bytes) + " bytes");
    }
  }
  void CopyIn(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
  }
  void CopyOut(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  void Wait() override {}

  void CopyKvSlot(const KvLayer& kv, const AttentionShape& shape, int32_t from,
                  int32_t to) override {
    const size_t token = static_cast<size_t>(shape.num_kv_heads) * shape.head_dim;
    const size_t bytes = token * DtypeBytes(kv.dtype);
    for (void* base : {kv.keys, kv.values}) {
      char* p = static_cast<char*>(base);
      std::memmove(p + to * bytes, p + from * bytes, bytes);
    }
  }

  Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& weight, WeightType type) override {
    constexpr int64_t kMaxSide = std::numeric_limits<int>::max();
    if (weight.data == nullptr || weight.shape.size() != 2 || weight.shape[0] < 1 ||
        weight.shape[1] < 1 || weight.shape[0] > kMaxSide || weight.shape[1] > kMaxSide) {
      return InvalidArgument("pack: not a matrix: " + weight.Describe());
    }
    try {
      auto packed = std::make_unique<DenseMatrix>(static_cast<int>(weight.shape[0]),
                                                  static_cast<int>(weight.shape[1]));
      for (size_t i = 0; i < packed->values.size(); ++i) {
        const float v = LoadElement(weight, i);
        packed->values[i] = type == WeightType::kBf16 ? Bf16ToFloat(FloatToBf16(v)) : v;
      }
      return std::unique_ptr<PackedMatrix>(std::move(packed));
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("pack: " + weight.Describe());
    }
  }

  void Embed(const PackedMatrix& table, const TokenId* tokens, int rows, float* out) override {
    const int n = table.in_features();
    for (int i = 0; i < rows; ++i) {
      std::memcpy(out + static_cast<size_t>(i) * n, Dense(table).row(tokens[i]), n * sizeof(float));
    }
  }

  void MatMul(const PackedMatrix& w, const float* x, int rows, const float* bias, bool accumulate,
              float* out) override {
    const int n = w.out_features();
    const int k = w.in_features();
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < n; ++o) {
        const float* weights = Dense(w).row(o);
        const float* row = x + static_cast<size_t>(r) * k;
        float sum = 0.f;
        for (int i = 0; i < k; ++i) sum += weights[i] * row[i];
        if (bias != nullptr) sum += bias[o];
        float& y = out[static_cast<size_t>(r) * n + o];
        y = accumulate ? y + sum : sum;
      }
    }
  }

  void RmsNorm(const float* x, const float* gain, int rows, int n, int stride, float eps,
               float* out) override {
    for (int r = 0; r < rows; ++r) {
      const float* in = x + static_cast<size_t>(r) * stride;
      float* y = out + static_cast<size_t>(r) * stride;
      float sum = 0.f;
      for (int i = 0; i < n; ++i) sum += in[i] * in[i];
      const float scale = 1.f / std::sqrt(sum / static_cast<float>(n) + eps);
      for (int i = 0; i < n; ++i) y[i] = in[i] * scale * gain[i];
    }
  }

  void RopeAndWriteKv(const BatchLayout& batch, const AttentionShape& shape, const float* cos_sin,
                      float* qkv, const KvLayer& kv) override {
    const int dim = shape.head_dim;
    const int half = dim / 2;
    const int heads = shape.num_heads + 2 * shape.num_kv_heads;
    for (int r = 0; r < batch.rows; ++r) {
      float* row = qkv + static_cast<size_t>(r) * heads * dim;
      const float* cos = cos_sin + static_cast<size_t>(batch.positions[r]) * dim;
      const float* sin = cos + half;
      for (int h = 0; h < shape.num_heads + shape.num_kv_heads; ++h) {
        float* a = row + h * dim;
        for (int i = 0; i < half; ++i) {
          const float lo = a[i] * cos[i] - a[i + half] * sin[i];
          a[i + half] = a[i + half] * cos[i] + a[i] * sin[i];
          a[i] = lo;
        }
      }
      const float* k = row + shape.num_heads * dim;
      const float* v = k + shape.num_kv_heads * dim;
      const int n = shape.num_kv_heads * dim;
      const size_t at = static_cast<size_t>(batch.slots[r]) * n;
      for (int i = 0; i < n; ++i) {
        StoreKv(kv.keys, kv.dtype, at + i, k[i]);
        StoreKv(kv.values, kv.dtype, at + i, v[i]);
      }
    }
  }

  void PagedAttention(const BatchLayout& batch, const AttentionShape& shape, const float* qkv,
                      const KvLayer& kv, float* out) override {
    const int dim = shape.head_dim;
    const int group = shape.num_heads / shape.num_kv_heads;
    const size_t row_width = static_cast<size_t>(shape.num_heads + 2 * shape.num_kv_heads) * dim;
    const size_t token_width = static_cast<size_t>(shape.num_kv_heads) * dim;
    std::vector<int> indices;
    std::vector<float> weights;
    for (int r = 0; r < batch.rows; ++r) {
      const int s = batch.row_sequence[r];
      const int first_row = batch.row_begin[s];
      const int context = batch.context[s];
      // Token indices within the sequence, by position.
      indices.clear();
      for (int i = 0; i < context; ++i) indices.push_back(i);
      if (batch.parents == nullptr) {
        for (int i = first_row; i <= r; ++i) indices.push_back(context + i - first_row);
      } else {
        for (int node = r - first_row; node >= 0; node = batch.parents[first_row + node]) {
          indices.insert(indices.begin() + context, context + node);
        }
      }
      if (shape.sliding_window > 0 && static_cast<int>(indices.size()) > shape.sliding_window) {
        indices.erase(indices.begin(), indices.end() - shape.sliding_window);
      }
      const int32_t* pages = batch.pages + batch.page_begin[s];
      const auto slot = [&](int index) {
        return static_cast<size_t>(pages[index / shape.page_tokens]) * shape.page_tokens +
               index % shape.page_tokens;
      };
      for (int h = 0; h < shape.num_heads; ++h) {
        const float* q = qkv + r * row_width + static_cast<size_t>(h) * dim;
        const size_t head = static_cast<size_t>(h / group) * dim;
        weights.clear();
        float max = -std::numeric_limits<float>::infinity();
        for (const int index : indices) {
          float dot = 0.f;
          const size_t at = slot(index) * token_width + head;
          for (int i = 0; i < dim; ++i) dot += q[i] * LoadKv(kv.keys, kv.dtype, at + i);
          weights.push_back(dot / std::sqrt(static_cast<float>(dim)));
          max = std::max(max, weights.back());
        }
        float sum = 0.f;
        for (float& w : weights) sum += w = std::exp(w - max);
        float* y = out + (static_cast<size_t>(r) * shape.num_heads + h) * dim;
        std::fill(y, y + dim, 0.f);
        for (size_t j = 0; j < indices.size(); ++j) {
          const size_t at = slot(indices[j]) * token_width + head;
          for (int i = 0; i < dim; ++i) {
            y[i] += weights[j] / sum * LoadKv(kv.values, kv.dtype, at + i);
          }
        }
      }
    }
  }

  void SwiGlu(const float* gate_up, int rows, int n, float* out) override {
    for (int r = 0; r < rows; ++r) {
      const float* gate = gate_up + static_cast<size_t>(r) * 2 * n;
      for (int i = 0; i < n; ++i) {
        out[static_cast<size_t>(r) * n + i] = gate[i] / (1.f + std::exp(-gate[i])) * gate[n + i];
      }
    }
  }

  void GatherRows(const float* x, const int32_t* rows, int count, int n, float* out) override {
    for (int i = 0; i < count; ++i) {
      std::memcpy(out + static_cast<size_t>(i) * n, x + static_cast<size_t>(rows[i]) * n,
                  n * sizeof(float));
    }
  }
};

}  // namespace

Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options) {
  if (options.threads < 1) return InvalidArgument("cpu backend: threads < 1");
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>());
}

}  // namespace outrider
