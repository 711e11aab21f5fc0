// The loops of the CPU backend, each compiled for several instruction sets (Highway) and chosen
// once, when the backend is created. All run on the calling thread and allocate nothing; the
// backend splits their ranges over its threads. No result depends on how a range is split.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/batch_layout.h"
#include "common/backend/cpu/packed_panels.h"

namespace outrider {

// Words of activations in fixed point, of `digits` bytes each, for a word of `inputs` codes.
constexpr size_t FixedWords(int inputs, int digits) {
  return static_cast<size_t>(inputs / 4) * static_cast<size_t>(digits);
}

// One product: y[rows, out] (+)= x[rows, in] W^T (+ bias).
struct Product {
  const PanelMatrix* weights = nullptr;
  const float* x = nullptr;
  int rows = 0;
  const float* bias = nullptr;  // or nullptr
  bool accumulate = false;
  float* y = nullptr;
  // For kernels that take rounded activations: [rows, words] with StepsPerWord values per word.
  // int8: steps of x_scales[row], plus 128; bf16: bit patterns, the even k in the low half.
  // Fixed point: in steps of x_scales[row, group]; for 8-bit codes [rows, words, digits], for 4-bit
  // codes and MXFP4 [rows, words, digits, 2], the digits of even inputs, then of odd ones, in the
  // order of the codes in a word.
  const uint32_t* x_words = nullptr;
  const float* x_scales = nullptr;
  // For codes with offsets: [rows, groups], the sum of x, as the kernel reads it, over each group.
  const float* x_sums = nullptr;
  // For fixed point: [rows, groups, digits], the sum of the digits times -128 for 8-bit codes, -12
  // for MXFP4.
  const int32_t* x_starts = nullptr;
};

// One call of PagedAttention.
struct Attention {
  const BatchLayout* batch = nullptr;
  AttentionShape shape;
  const float* qkv = nullptr;
  KvLayer kv;
  float* out = nullptr;
};

// One row of activations in fixed point: where its part of a Product's x_words, x_scales, x_sums
// and x_starts is written. A step is NaN where a value of its group is NaN or infinite.
struct FixedRow {
  uint32_t* words;
  float* steps;     // [groups]
  float* sums;      // [groups]
  int32_t* starts;  // [groups, digits]; not written for 4-bit integers
};

// A product of codes with activations in fixed point; nullptr if the processor has no instruction
// for it. REQUIRES: groups of at most kMaxFixedGroup inputs; 8-bit codes in the order of dot
// product instructions.
struct FixedKernels {
  void (*matmul)(const Product& product, int begin, int end) = nullptr;
  void (*fix_row)(const float* x, int in, int group_size, const FixedRow& to) = nullptr;
  int digits = 0;
};

struct CpuKernels {
  // Panels [begin, end) of a product with weights of one type.
  void (*matmul_f32)(const Product& product, int begin, int end);
  void (*matmul_bf16)(const Product& product, int begin, int end);
  void (*matmul_w8a16)(const Product& product, int begin, int end);
  void (*matmul_w4a16)(const Product& product, int begin, int end);
  void (*matmul_fp8)(const Product& product, int begin, int end);
  void (*matmul_mxfp4)(const Product& product, int begin, int end);
  void (*matmul_w8a8)(const Product& product, int begin, int end);
  // With bf16 activations; nullptr if the processor has no instruction for it.
  void (*matmul_bf16_dot)(const Product& product, int begin, int end);
  // Codes with activations in fixed point: of three digits, and of one.
  FixedKernels w8_fixed, w4_fixed, mxfp4_fixed;
  FixedKernels w8_int8, w4_int8, mxfp4_int8;
  // Rounds one row of `in` values to int8 steps plus 128, zero-padded to a multiple of 4; returns
  // the step size.
  float (*quantize_row)(const float* x, int in, uint8_t* steps);
  // Sums one row's `in` values by groups of `group_size`; the last group may be shorter.
  void (*sum_groups)(const float* x, int in, int group_size, float* sums);

  // The same as the ops of Backend.
  void (*rms_norm)(const float* x, const float* gain, int rows, int n, int stride, float eps,
                   bool accumulate, float* out);
  void (*glu)(Activation activation, const float* gate_up, int rows, int n, float* out);
  void (*scale)(float* x, size_t count, float factor);
  void (*soft_cap)(float* x, size_t count, float cap);
  // Rows [begin, end) of the batch.
  void (*rope_and_write_kv)(const BatchLayout& batch, const AttentionShape& shape,
                            const float* cos_sin, float* qkv, const KvLayer& kv, int begin,
                            int end);
  // Units [begin, end) of AttentionUnits(); `scratch` has AttentionScratchFloats() floats.
  void (*attention)(const Attention& attention, int begin, int end, float* scratch);

  const char* name;  // "AVX3"
};

// The best kernels for this machine, within Highway's enabled targets (tests restrict them).
CpuKernels ChooseKernels();

// The parts of ChooseKernels, one function per file.
void ChooseFloatMatMul(CpuKernels& kernels);
void ChooseInt8MatMul(CpuKernels& kernels);
void ChooseDotMatMul(CpuKernels& kernels);  // after the others: replaces matmul_w8a8 where it can
void ChooseFixedMatMul(CpuKernels& kernels);
void ChooseRowKernels(CpuKernels& kernels);
void ChooseRope(CpuKernels& kernels);
void ChooseAttention(CpuKernels& kernels);

// The number of units, each of one sequence, KV head and block of queries.
int AttentionUnits(const BatchLayout& batch, const AttentionShape& shape);
size_t AttentionScratchFloats(const BatchLayout& batch, const AttentionShape& shape);

// Where a token's key and value are in a page. Keys are [kv_heads, head_dim, page_tokens], so that
// one vector holds the same element of neighbouring tokens and scores need no horizontal sums;
// values are [kv_heads, page_tokens, head_dim].
struct KvPlace {
  KvPlace(const AttentionShape& shape, int32_t slot, int kv_head)
      : head(((static_cast<size_t>(slot / shape.page_tokens) * shape.num_kv_heads) + kv_head) *
             shape.head_dim * shape.page_tokens),
        key(head + slot % shape.page_tokens),
        value(head + static_cast<size_t>(slot % shape.page_tokens) * shape.head_dim) {}

  size_t head;   // the head's first element in the page, for keys and values
  size_t key;    // element d of the key is at key + d * page_tokens
  size_t value;  // element d of the value is at value + d
};

}  // namespace outrider
