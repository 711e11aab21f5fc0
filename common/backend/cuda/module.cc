#include "common/backend/cuda/module.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "common/backend/cuda/cuda_backend.h"
#include "common/backend/cuda/cuda_device.h"
#include "common/base/version.h"

namespace outrider {
namespace {

Result<std::unique_ptr<Backend>> Create(const CudaModuleOptions& options) {
  OUTRIDER_TRY(UseCudaDevice(options.device));
  OUTRIDER_ASSIGN(std::unique_ptr<LargeProduct> product, CreateCublasProduct());
  return CreateCudaBackend(
      options.device, std::move(product),
      {.graphs = options.graphs,
       .fp8_activations = options.fp8_activations,
       .warn = [warn = options.warn](const std::string& message) { warn(message.c_str()); }});
}

}  // namespace
}  // namespace outrider

extern "C" {

const char* outrider_cuda_module_version() { return outrider::kVersion; }

int outrider_cuda_module_interface() { return outrider::kCudaModuleInterface; }

int outrider_cuda_module_create(const outrider::CudaModuleOptions& options,
                                outrider::Backend** backend, char* message, size_t message_bytes) {
  outrider::Result<std::unique_ptr<outrider::Backend>> made = outrider::Create(options);
  if (!made.ok()) {
    std::snprintf(message, message_bytes, "%s", made.status().message().c_str());
    return static_cast<int>(made.status().code());
  }
  *backend = std::move(made).value().release();
  return 0;
}

}  // extern "C"
