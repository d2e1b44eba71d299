// A backend that says it can do less than it can: fixtures show what the host then does.
#pragma once

#include "forwarding_backend.h"

namespace cleave::test {

/// `kCapabilities`: what it admits to.
template <cleave_capabilities (*kCapabilities)()>
class NarrowBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  cleave_capabilities capabilities() const override { return kCapabilities(); }
  std::unique_ptr<Operation> submit(const cleave_collective& collective) override {
    return inner().submit(collective);
  }
  std::unique_ptr<Backend> split(int color, int key) override {
    auto child = inner().split(color, key);
    return child ? std::make_unique<NarrowBackend>(std::move(child)) : nullptr;
  }
};

/// The body of a plugin's create_communicator around the real backend's.
template <cleave_capabilities (*kCapabilities)(),
          std::unique_ptr<Backend> (*kCreate)(const cleave_bootstrap&, const cleave_options*)>
int32_t create_narrow(const cleave_bootstrap* bootstrap, const cleave_options* options,
                      cleave_communicator** out, char* error, uint64_t capacity) {
  constexpr auto create = [](const cleave_bootstrap& table,
                             const cleave_options* values) -> std::unique_ptr<Backend> {
    return std::make_unique<NarrowBackend<kCapabilities>>(kCreate(table, values));
  };
  return create_with_status(create, bootstrap, options, out, error, capacity);
}

}  // namespace cleave::test
