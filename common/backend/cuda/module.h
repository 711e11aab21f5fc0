// What the file outrider_cuda_backend.so exports. It is opened at run time, so that the services
// start where neither CUDA nor a driver is; names and types are C's, the objects behind them those
// of the same build, which the version makes sure of.
#pragma once

#include <cstddef>

#include "common/backend/backend.h"

namespace outrider {

inline constexpr char kCudaModuleFile[] = "outrider_cuda_backend.so";
// Counts up with every change of Backend or of the functions below.
inline constexpr int kCudaModuleInterface = 4;

// Both are equal to the caller's own, or nothing else may be called.
using CudaModuleVersion = const char*();
using CudaModuleInterface = int();
inline constexpr char kCudaModuleVersionName[] = "outrider_cuda_module_version";
inline constexpr char kCudaModuleInterfaceName[] = "outrider_cuda_module_interface";

struct CudaModuleOptions {
  int device = 0;
  bool graphs = true;
  void (*warn)(const char* message) = nullptr;  // the file has no log of its own
};

// Makes a backend. 0, and the caller owns *backend; or a Code, and `message` holds the words, cut
// to `message_bytes`.
using CudaModuleCreate = int(const CudaModuleOptions& options, Backend** backend, char* message,
                             size_t message_bytes);
inline constexpr char kCudaModuleCreateName[] = "outrider_cuda_module_create";

}  // namespace outrider
