// Controls of the tests' double of cublasLt (cublasLt.h, fake_cublas.cc), which computes on the
// emulated streams and in their graphs, with sums in double.
//
// It knows what the library's documentation demands of a product's types, sides, leading
// dimensions, alignment, memory and workspace. A call that breaks a rule gets the documented status
// and is noted as a misuse, as callers may take that status for an algorithm that is missing.
//
// Everything is by thread, like the emulation.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace outrider::cuda_emulation {

// An algorithm that the library suggests.
struct FakeAlgorithm {
  float milliseconds = 1;          // that a product takes, as events measure it
  size_t workspace_of_column = 0;  // bytes, of each column of d
  int column_multiple = 1;         // of the library's matrices: those it takes
  bool takes_fp8 = true;
  bool fails = false;  // products with it are not supported after all
};

// Sets what is suggested from now on, the library's first choice first, and begins to count. At
// first: one algorithm.
void SetAlgorithms(std::vector<FakeAlgorithm> algorithms);
// Makes the next cublasLtCreate fail.
void FailNextCreate();

// The algorithm of each product since, also of those that failed, and how often algorithms were
// asked for.
const std::vector<size_t>& ProductsTried();
int Searches();
// Returns what was wrong with calls so far, and forgets it.
std::vector<std::string> TakeMisuses();
// Handles, descriptions, layouts and preferences that exist.
int LiveCublasObjects();

}  // namespace outrider::cuda_emulation
