// A small paged cache around a backend for the attention tests, and the same computation in double.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "common/backend/backend.h"

namespace outrider {

// One sequence's new rows: `qkv` is [rows, (num_heads + 2 num_kv_heads) * head_dim]; `parents` is
// empty for a chain.
struct NewRows {
  int sequence = 0;
  std::vector<float> qkv;
  std::vector<int32_t> parents;
};

// Sequences with their page tables in one layer's cache. Unwritten slots hold NaN.
class PagedCache {
 public:
  // The shape's sinks are in host memory, here and in ReferenceCache. Room for `tokens` tokens of
  // up to four sequences. Pages are dealt out in an order drawn with `page_seed`.
  PagedCache(Backend* backend, const AttentionShape& shape, KvType type, int tokens,
             unsigned page_seed);

  // One call of RopeAndWriteKv and one of PagedAttention over all of `batch`, appended to their
  // sequences. Returns each sequence's rows of the output.
  std::vector<std::vector<float>> Append(const std::vector<NewRows>& batch);
  // Keeps of the last `appended` tokens those of `path` (ascending), by CopyKvSlots.
  void KeepPath(int sequence, int appended, const std::vector<int>& path);
  int length(int sequence) const { return lengths_[sequence]; }

 private:
  int32_t Slot(int sequence, int token) const;

  Backend* backend_;
  AttentionShape shape_;
  KvLayer kv_;
  std::unique_ptr<Buffer> keys_;
  std::unique_ptr<Buffer> values_;
  std::unique_ptr<Buffer> cos_sin_;
  std::unique_ptr<Buffer> sinks_;
  std::vector<int32_t> free_pages_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<int> lengths_;
};

// The same in double, without pages.
class ReferenceCache {
 public:
  ReferenceCache(const AttentionShape& shape, KvType type) : shape_(shape), type_(type) {}

  // [rows, num_heads * head_dim] of one sequence's new rows.
  std::vector<double> Append(const NewRows& rows);

 private:
  struct Token {
    std::vector<double> key;    // [kv_heads * head_dim]
    std::vector<double> value;  // the same
  };

  AttentionShape shape_;
  KvType type_;
  std::vector<std::vector<Token>> sequences_;
};

// Scales of caches in FP8: some keys are beyond the largest code, some values subnormal.
constexpr float kFp8KeyScale = 0.006f;
constexpr float kFp8ValueScale = 0.3f;

constexpr int kMaxPositions = 1024;
// [kMaxPositions, dims] of angles that differ for every position and index. For a cache in FP8
// quarter turns, which are exact in any arithmetic: a key that is rounded the other way, as a key
// that is off by 2^-24 may be, would be off by 2^-3.
const std::vector<float>& CosSinTable(int dims, KvType type);

NewRows RandomRows(const AttentionShape& shape, int sequence, int rows, std::mt19937& random);
// parents[i] < i, drawn at random; the first row is a root, others may be too.
std::vector<int32_t> RandomTree(int rows, std::mt19937& random);
// The rows from a root to `node`.
std::vector<int> PathTo(const std::vector<int32_t>& parents, int node);
// The rows of `path` as a chain.
NewRows TakePath(const NewRows& rows, const AttentionShape& shape, const std::vector<int>& path);

}  // namespace outrider
