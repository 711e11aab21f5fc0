// The exports of outrider_cuda_backend.so. It is opened at run time, so that the services start
// without CUDA or a driver. Symbols have C linkage, but the objects behind them have the C++ layout
// of the same build, which the version check ensures.
#pragma once

#include <cstddef>

#include "common/backend/backend.h"

namespace outrider {

inline constexpr char kCudaModuleFile[] = "outrider_cuda_backend.so";
// Incremented with every change of Backend or of the functions below.
inline constexpr int kCudaModuleInterface = 6;

// Both must equal the caller's own before anything else is called.
using CudaModuleVersion = const char*();
using CudaModuleInterface = int();
inline constexpr char kCudaModuleVersionName[] = "outrider_cuda_module_version";
inline constexpr char kCudaModuleInterfaceName[] = "outrider_cuda_module_interface";

struct CudaModuleOptions {
  int device = 0;
  bool graphs = true;
  bool fp8_activations = false;
  void (*warn)(const char* message) = nullptr;  // the library has no log of its own
};

// Creates a backend. Returns 0, and the caller owns *backend; or a Code, and `message` contains the
// error message, truncated to `message_bytes`.
using CudaModuleCreate = int(const CudaModuleOptions& options, Backend** backend, char* message,
                             size_t message_bytes);
inline constexpr char kCudaModuleCreateName[] = "outrider_cuda_module_create";

}  // namespace outrider
