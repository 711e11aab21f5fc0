// A small paged cache on a backend for the attention tests, and the same computation in double.
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

// Sequences with their page tables in one layer's cache. Unwritten slots contain NaN.
class PagedCache {
 public:
  // The shape's sinks are in host memory, here and in ReferenceCache. Has room for `tokens` tokens
  // of up to four sequences. Pages are assigned in a random order determined by `page_seed`.
  PagedCache(Backend* backend, const AttentionShape& shape, KvType type, int tokens,
             unsigned page_seed);

  // Calls RopeAndWriteKv and PagedAttention once each for all of `batch`, appended to their
  // sequences. Returns each sequence's rows of the output.
  std::vector<std::vector<float>> Append(const std::vector<NewRows>& batch);
  // Of the last `appended` tokens, keeps those of `path` (ascending), using CopyKvSlots.
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

  // The output [rows, num_heads * head_dim] for one sequence's new rows.
  std::vector<double> Append(const NewRows& rows);

 private:
  struct Token {
    std::vector<double> key;    // [kv_heads * head_dim]
    std::vector<double> value;  // the same shape
  };

  AttentionShape shape_;
  KvType type_;
  std::vector<std::vector<Token>> sequences_;
};

// Scales of FP8 caches, so that some keys exceed the largest code and some values are subnormal.
constexpr float kFp8KeyScale = 0.006f;
constexpr float kFp8ValueScale = 0.3f;

constexpr int kMaxPositions = 1024;
// [kMaxPositions, dims] of angles that differ for every position and index. For an FP8 cache they
// are quarter turns, which are exact in any arithmetic: a key with an error of 2^-24 may be rounded
// to another code, which would be an error of 2^-3.
const std::vector<float>& CosSinTable(int dims, KvType type);

NewRows RandomRows(const AttentionShape& shape, int sequence, int rows, std::mt19937& random);
// Random parents[i] < i; the first row is a root, others may be, too.
std::vector<int32_t> RandomTree(int rows, std::mt19937& random);
// The rows from a root to `node`.
std::vector<int> PathTo(const std::vector<int32_t>& parents, int node);
// The rows of `path` as a chain.
NewRows TakePath(const NewRows& rows, const AttentionShape& shape, const std::vector<int>& path);

}  // namespace outrider
