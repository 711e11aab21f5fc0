#include "tests/conformance/paged_cache.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/math/fp8.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

int RowWidth(const AttentionShape& s) { return (s.num_heads + 2 * s.num_kv_heads) * s.head_dim; }

int Rows(const NewRows& rows, const AttentionShape& shape) {
  return static_cast<int>(rows.qkv.size()) / RowWidth(shape);
}

std::unique_ptr<Buffer> MakeBuffer(Backend* backend, size_t bytes, int fill) {
  Result<std::unique_ptr<Buffer>> buffer = backend->Allocate(bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
  const std::vector<char> pattern(bytes, static_cast<char>(fill));
  backend->CopyIn((*buffer)->data(), pattern.data(), bytes);
  return std::move(buffer).value();
}

// A value as the cache stores it.
double Stored(float value, KvType type, float scale) {
  switch (type) {
    case KvType::kF32: break;
    case KvType::kF16: return F16ToFloat(FloatToF16(value));
    case KvType::kBf16: return Bf16ToFloat(FloatToBf16(value));
    case KvType::kFp8: return static_cast<double>(Fp8ToFloat(FloatToFp8(value / scale))) * scale;
  }
  return value;
}

// Rotates the first `dims` values of a head.
void Rotate(const std::vector<float>& table, int position, int dims, double* x) {
  const float* cos = table.data() + position * dims;
  const float* sin = cos + dims / 2;
  for (int i = 0; i < dims / 2; ++i) {
    const double a = x[i], b = x[i + dims / 2];
    x[i] = a * cos[i] - b * sin[i];
    x[i + dims / 2] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

PagedCache::PagedCache(Backend* backend, const AttentionShape& shape, KvType type, int tokens,
                       unsigned page_seed)
    : backend_(backend), shape_(shape) {
  const int pages = tokens / shape.page_tokens + 4;
  const size_t bytes = static_cast<size_t>(pages) * shape.page_tokens * shape.num_kv_heads *
                       shape.head_dim * KvTypeBytes(type);
  keys_ = MakeBuffer(backend, bytes, 0xff);  // NaN in every type
  values_ = MakeBuffer(backend, bytes, 0xff);
  kv_ = {keys_->data(), values_->data(), type};
  if (type == KvType::kFp8) {
    kv_.key_scale = kFp8KeyScale;
    kv_.value_scale = kFp8ValueScale;
  }
  const std::vector<float>& table = CosSinTable(shape.head_dim - shape.unrotated, type);
  cos_sin_ = MakeBuffer(backend, table.size() * sizeof(float), 0);
  backend->CopyIn(cos_sin_->data(), table.data(), table.size() * sizeof(float));
  if (shape.sinks != nullptr) {
    const size_t sink_bytes = static_cast<size_t>(shape.num_heads) * sizeof(float);
    sinks_ = MakeBuffer(backend, sink_bytes, 0);
    backend->CopyIn(sinks_->data(), shape.sinks, sink_bytes);
    shape_.sinks = sinks_->floats();
  }
  for (int i = 0; i < pages; ++i) free_pages_.push_back(i);
  std::shuffle(free_pages_.begin(), free_pages_.end(), std::mt19937(page_seed));
}

std::vector<std::vector<float>> PagedCache::Append(const std::vector<NewRows>& batch) {
  BatchLayout layout;
  std::vector<int32_t> positions, slots, context, pages, parents;
  std::vector<int32_t> row_begin = {0}, page_begin = {0};
  std::vector<float> qkv;
  bool any_tree = false;
  for (const NewRows& rows : batch) {
    if (rows.sequence >= static_cast<int>(tables_.size())) {
      tables_.resize(rows.sequence + 1);
      lengths_.resize(rows.sequence + 1);
    }
    std::vector<int32_t>& table = tables_[rows.sequence];
    int& length = lengths_[rows.sequence];
    const int n = Rows(rows, shape_);
    while (static_cast<int>(table.size()) * shape_.page_tokens < length + n) {
      table.push_back(free_pages_.back());
      free_pages_.pop_back();
    }
    context.push_back(length);
    const int first = static_cast<int>(positions.size());
    for (int i = 0; i < n; ++i) {
      const int parent = rows.parents.empty() ? i - 1 : rows.parents[i];
      parents.push_back(parent);
      positions.push_back(parent < 0 ? length : positions[first + parent] + 1);
      slots.push_back(Slot(rows.sequence, length + i));
    }
    any_tree |= !rows.parents.empty();
    qkv.insert(qkv.end(), rows.qkv.begin(), rows.qkv.end());
    pages.insert(pages.end(), table.begin(), table.end());
    row_begin.push_back(static_cast<int32_t>(positions.size()));
    page_begin.push_back(static_cast<int32_t>(pages.size()));
    length += n;
  }
  layout.rows = row_begin.back();
  layout.sequences = static_cast<int>(batch.size());
  layout.positions = positions.data();
  layout.slots = slots.data();
  layout.row_begin = row_begin.data();
  layout.context = context.data();
  layout.page_begin = page_begin.data();
  layout.pages = pages.data();
  layout.parents = any_tree ? parents.data() : nullptr;

  const auto device_qkv = MakeBuffer(backend_, qkv.size() * sizeof(float), 0);
  backend_->CopyIn(device_qkv->data(), qkv.data(), qkv.size() * sizeof(float));
  const size_t out_width = static_cast<size_t>(shape_.num_heads) * shape_.head_dim;
  const auto out = MakeBuffer(backend_, layout.rows * out_width * sizeof(float), 0xff);
  const auto ops = [&] {
    backend_->RopeAndWriteKv(layout, shape_, {}, cos_sin_->floats(), device_qkv->floats(), kv_);
    backend_->PagedAttention(layout, shape_, device_qkv->floats(), kv_, out->floats(),
                             Consumers::kAny);
  };
  if (backend_->device() != nullptr) {
    backend_->device()->RunPass(layout, shape_, kv_.type, ops);
  } else {
    ops();
  }
  backend_->Wait();
  std::vector<std::vector<float>> results;
  for (int s = 0; s < layout.sequences; ++s) {
    results.emplace_back((row_begin[s + 1] - row_begin[s]) * out_width);
    backend_->CopyOut(results.back().data(), out->floats() + row_begin[s] * out_width,
                      results.back().size() * sizeof(float));
  }
  return results;
}

void PagedCache::KeepPath(int sequence, int appended, const std::vector<int>& path) {
  const int start = lengths_[sequence] - appended;
  std::vector<SlotCopy> copies;
  for (size_t i = 0; i < path.size(); ++i) {
    const int to = start + static_cast<int>(i);
    if (start + path[i] != to) {
      copies.push_back({Slot(sequence, start + path[i]), Slot(sequence, to)});
    }
  }
  backend_->CopyKvSlots({&kv_, 1}, shape_, copies);
  lengths_[sequence] = start + static_cast<int>(path.size());
}

int32_t PagedCache::Slot(int sequence, int token) const {
  return tables_[sequence][token / shape_.page_tokens] * shape_.page_tokens +
         token % shape_.page_tokens;
}

std::vector<double> ReferenceCache::Append(const NewRows& rows) {
  if (rows.sequence >= static_cast<int>(sequences_.size())) sequences_.resize(rows.sequence + 1);
  std::vector<Token>& tokens = sequences_[rows.sequence];
  const int context = static_cast<int>(tokens.size());
  const int dim = shape_.head_dim;
  const int kv_width = shape_.num_kv_heads * dim;
  const int rotated = dim - shape_.unrotated;
  const std::vector<float>& table = CosSinTable(rotated, type_);
  std::vector<double> out;
  for (int r = 0; r < Rows(rows, shape_); ++r) {
    std::vector<int> seen(context);  // token indices in the order of their positions
    for (int i = 0; i < context; ++i) seen[i] = i;
    std::vector<int> path;
    if (rows.parents.empty()) {
      for (int i = 0; i <= r; ++i) path.push_back(i);
    } else {
      path = PathTo(rows.parents, r);
    }
    for (const int node : path) seen.push_back(context + node);
    const int position = static_cast<int>(seen.size()) - 1;
    if (shape_.sliding_window > 0 && position >= shape_.sliding_window) {
      seen.erase(seen.begin(), seen.end() - shape_.sliding_window);
    }

    const float* row = &rows.qkv[static_cast<size_t>(r) * RowWidth(shape_)];
    std::vector<double> q(row, row + shape_.num_heads * dim);
    for (int h = 0; h < shape_.num_heads; ++h) Rotate(table, position, rotated, &q[h * dim]);
    const float* k = row + shape_.num_heads * dim;
    Token token{std::vector<double>(k, k + kv_width), {}};
    for (int h = 0; h < shape_.num_kv_heads; ++h)
      Rotate(table, position, rotated, &token.key[h * dim]);
    for (double& x : token.key) x = Stored(static_cast<float>(x), type_, kFp8KeyScale);
    for (int i = 0; i < kv_width; ++i) {
      token.value.push_back(Stored(k[kv_width + i], type_, kFp8ValueScale));
    }
    tokens.push_back(token);

    for (int h = 0; h < shape_.num_heads; ++h) {
      const int kv = h / (shape_.num_heads / shape_.num_kv_heads) * dim;
      std::vector<double> scores;
      for (const int t : seen) {
        double dot = 0;
        for (int i = 0; i < dim; ++i) dot += q[h * dim + i] * tokens[t].key[kv + i];
        const double score = dot / std::sqrt(shape_.query_scalar > 0 ? shape_.query_scalar : dim);
        const double cap = shape_.soft_cap;
        scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
      }
      const double max = *std::max_element(scores.begin(), scores.end());
      double sum = shape_.sinks != nullptr ? std::exp(shape_.sinks[h] - max) : 0;
      for (double& s : scores) sum += s = std::exp(s - max);
      for (int i = 0; i < dim; ++i) {
        double y = 0;
        for (size_t j = 0; j < seen.size(); ++j) y += scores[j] * tokens[seen[j]].value[kv + i];
        out.push_back(y / sum);
      }
    }
  }
  return out;
}

const std::vector<float>& CosSinTable(int dims, KvType type) {
  const bool quarters = type == KvType::kFp8;
  static std::map<std::pair<int, bool>, std::vector<float>> tables;
  std::vector<float>& table = tables[{dims, quarters}];
  if (!table.empty()) return table;
  table.resize(static_cast<size_t>(kMaxPositions) * dims);
  for (int p = 0; p < kMaxPositions; ++p) {
    for (int i = 0; i < dims / 2; ++i) {
      float* const cos = &table[p * dims + i];
      float* const sin = cos + dims / 2;
      if (quarters) {
        const int turns = p * (i + 1) % 4;
        *cos = turns % 2 == 0 ? static_cast<float>(1 - turns) : 0.f;
        *sin = turns % 2 == 0 ? 0.f : static_cast<float>(2 - turns);
        continue;
      }
      const double angle = p * std::pow(100., -2. * i / dims);
      *cos = static_cast<float>(std::cos(angle));
      *sin = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

NewRows RandomRows(const AttentionShape& shape, int sequence, int rows, std::mt19937& random) {
  std::normal_distribution<float> normal;
  NewRows out{sequence, std::vector<float>(static_cast<size_t>(rows) * RowWidth(shape)), {}};
  for (float& v : out.qkv) v = normal(random);
  return out;
}

std::vector<int32_t> RandomTree(int rows, std::mt19937& random) {
  std::vector<int32_t> parents;
  for (int i = 0; i < rows; ++i) parents.push_back(static_cast<int>(random() % (i + 1)) - 1);
  return parents;
}

std::vector<int> PathTo(const std::vector<int32_t>& parents, int node) {
  std::vector<int> path;
  for (; node >= 0; node = parents[node]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

NewRows TakePath(const NewRows& rows, const AttentionShape& shape, const std::vector<int>& path) {
  const int width = RowWidth(shape);
  NewRows out{rows.sequence, {}, {}};
  for (const int r : path) {
    out.qkv.insert(out.qkv.end(), rows.qkv.begin() + r * width, rows.qkv.begin() + (r + 1) * width);
  }
  return out;
}

}  // namespace outrider
