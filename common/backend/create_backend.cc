#include "common/backend/create_backend.h"

#include <dlfcn.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/backend/cuda/module.h"
#include "common/base/log.h"
#include "common/base/version.h"

namespace outrider {
namespace {

constexpr std::string_view kCudaPrefix = "cuda:";

// The last path is left to the dynamic linker's search path.
std::vector<std::string> ModulePaths() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> paths;
  if (!error) {
    paths.push_back(program.parent_path() / kCudaModuleFile);
    paths.push_back(program.parent_path().parent_path() / "lib" / kCudaModuleFile);
  }
  paths.push_back(kCudaModuleFile);
  return paths;
}

Result<void*> OpenModule() {
  std::string reasons;
  for (const std::string& path : ModulePaths()) {
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module != nullptr) return module;
    const char* reason = dlerror();
    reasons += std::string("\n  ") + (reason != nullptr ? reason : path.c_str());
  }
  return NotFound(
      std::string("the CUDA backend cannot be opened; is it built (OUTRIDER_CUDA) and ") +
      kCudaModuleFile + " beside the program, and the CUDA libraries installed?" + reasons);
}

Result<void*> Find(void* module, const char* name) {
  void* const symbol = dlsym(module, name);
  if (symbol == nullptr) {
    return FailedPrecondition(std::string(kCudaModuleFile) + " has no " + name);
  }
  return symbol;
}

Result<std::unique_ptr<Backend>> CreateCudaBackend(const CudaModuleOptions& options) {
  // Never closed, because the driver's threads stay.
  OUTRIDER_ASSIGN(void* const module, OpenModule());
  OUTRIDER_ASSIGN(void* const version_symbol, Find(module, kCudaModuleVersionName));
  OUTRIDER_ASSIGN(void* const interface_symbol, Find(module, kCudaModuleInterfaceName));
  OUTRIDER_ASSIGN(void* const create_symbol, Find(module, kCudaModuleCreateName));
  auto* const version = reinterpret_cast<CudaModuleVersion*>(version_symbol);
  auto* const interface = reinterpret_cast<CudaModuleInterface*>(interface_symbol);
  auto* const create = reinterpret_cast<CudaModuleCreate*>(create_symbol);
  if (std::string_view(version()) != kVersion || interface() != kCudaModuleInterface) {
    return FailedPrecondition(std::string(kCudaModuleFile) + " is of version " + version() +
                              ", interface " + std::to_string(interface()) +
                              "; this program is of version " + kVersion + ", interface " +
                              std::to_string(kCudaModuleInterface));
  }
  Backend* backend = nullptr;
  char message[1024] = "";
  const int code = create(options, &backend, message, sizeof(message));
  if (code != 0) return Status(static_cast<Code>(code), message);
  return std::unique_ptr<Backend>(backend);
}

}  // namespace

std::optional<int> CudaDeviceOf(std::string_view device) {
  if (!device.starts_with(kCudaPrefix)) return std::nullopt;
  device.remove_prefix(kCudaPrefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), number);
  if (error != std::errc() || end != device.data() + device.size() || number < 0) {
    return std::nullopt;
  }
  return number;
}

Status CheckDeviceName(const std::string& device) {
  if (device == "cpu" || CudaDeviceOf(device).has_value()) return Status();
  return InvalidArgument("device \"" + device + "\": cpu or cuda:N, e.g. cuda:0");
}

Result<std::unique_ptr<Backend>> CreateBackend(const std::string& device,
                                               const CpuBackendOptions& cpu,
                                               const CudaBackendOptions& cuda) {
  OUTRIDER_TRY(CheckDeviceName(device));
  const std::optional<int> number = CudaDeviceOf(device);
  if (!number.has_value()) return CreateCpuBackend(cpu);
  return CreateCudaBackend({.device = *number,
                            .graphs = cuda.graphs,
                            .fp8_activations = cuda.fp8_activations,
                            .warn = [](const char* message) { Log(LogLevel::kWarning, message); }});
}

}  // namespace outrider
