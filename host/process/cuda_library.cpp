#include "cuda_library.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <filesystem>

#include "cleave/error.h"

namespace cleave {

namespace {

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::filesystem::path folder_of_torch() {
  Dl_info info{};
  const auto* symbol = reinterpret_cast<const void*>(&at::globalContext);
  if (dladdr(symbol, &info) == 0 || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

}  // namespace

GpuCount count_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return {0, "no libcuda.so.1, so no NVIDIA driver is installed"};
  auto* init = find<int(unsigned)>(driver, "cuInit");
  auto* count = find<int(int*)>(driver, "cuDeviceGetCount");
  if (!init || !count) return {0, "libcuda.so.1 has no cuInit"};
  if (const int status = init(0); status != 0)
    return {0, message("the driver's cuInit gives error ", status)};
  int gpus = 0;
  if (const int status = count(&gpus); status != 0)
    return {0, message("the driver's cuDeviceGetCount gives error ", status)};
  return {gpus, gpus > 0 ? "" : "the driver sees none (CUDA_VISIBLE_DEVICES?)"};
}

std::string load_torch_cuda() {
  const std::filesystem::path file = folder_of_torch() / "libtorch_cuda.so";
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) return "";
  const char* reason = dlerror();
  return message(file.string(), " can't be loaded (", reason ? reason : "no reason given",
                 "; tools/setup --cuda brings what it needs)");
}

}  // namespace cleave
