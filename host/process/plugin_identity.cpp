#include "plugin_identity.h"

#include <cstring>
#include <ios>
#include <string_view>

#include "cleave/error.h"

namespace cleave {
namespace {

/// A char array of the descriptor, which a careless plugin need not have terminated.
template <size_t kCapacity>
std::string_view text(const char (&field)[kCapacity]) {
  return {field, strnlen(field, kCapacity)};
}

/// "gcc" of "gcc 12"
std::string_view family(std::string_view compiler) {
  return compiler.substr(0, compiler.find(' '));
}

/// "2.11" of "2.11.0"
std::string_view major_minor(std::string_view version) {
  const size_t first = version.find('.');
  return first == version.npos ? version : version.substr(0, version.find('.', first + 1));
}

std::string_view torch_name(std::string_view version) {
  return version.empty() ? "none" : version;
}

const char* sanitizer_names(uint32_t bits) {
  constexpr const char* kNames[] = {"none", "address", "thread", "address and thread"};
  return kNames[bits & 3];
}

const char* kind_name(uint32_t kind) {
  if (kind == CLEAVE_COMMUNICATION) return "communication";
  return kind == CLEAVE_STRATEGY ? "strategy" : "unknown";
}

class Conflicts {
 public:
  template <typename Value>
  void compare(const char* field, const Value& plugin, const Value& wanted) {
    if (plugin != wanted) add(field, plugin, wanted);
  }
  template <typename Value>
  void add(const char* field, const Value& plugin, const Value& wanted) {
    if (!text_.empty()) text_ += ", ";
    text_ += message(field, " is ", plugin, " where ", wanted, " is needed");
  }
  bool any() const { return !text_.empty(); }
  std::string then(const char* remedy) const { return text_ + "; " + remedy; }

 private:
  std::string text_;
};

std::string sdk_version(uint32_t major, uint32_t minor) {
  return message(major, ".", minor);
}

void compare_abi(Conflicts& conflicts, const cleave_plugin& plugin, cleave_plugin_kind kind,
                 const cleave_abi& host) {
  const cleave_abi& abi = plugin.abi;
  const std::string_view torch = text(abi.torch_version), host_torch = text(host.torch_version);
  const bool uses_torch = kind == CLEAVE_STRATEGY || !torch.empty();
  if (uses_torch && major_minor(torch) != major_minor(host_torch)) {
    conflicts.add("LibTorch", torch_name(torch), torch_name(host_torch));
  }
  if (family(text(abi.compiler)) != family(text(host.compiler))) {
    conflicts.add("compiler", text(abi.compiler), text(host.compiler));
  }
  conflicts.compare("standard library", text(abi.standard_library), text(host.standard_library));
  conflicts.compare("architecture", text(abi.architecture), text(host.architecture));
  conflicts.compare("C++11 ABI", abi.cxx11_abi, host.cxx11_abi);
  if (abi.sanitizers != host.sanitizers) {
    conflicts.add("sanitizer", sanitizer_names(abi.sanitizers), sanitizer_names(host.sanitizers));
  }
}

}  // namespace

const char* to_string(cleave_plugin_kind kind) {
  return kind_name(kind);
}

std::string find_identity_conflict(const cleave_plugin& plugin, cleave_plugin_kind kind,
                                   const std::string& name, const cleave_abi& host) {
  if (plugin.magic != CLEAVE_PLUGIN_MAGIC) {
    return message("not a Cleave plugin (magic is 0x", std::hex, plugin.magic, " where 0x",
                   CLEAVE_PLUGIN_MAGIC, " is needed); remove the file or build it with the SDK");
  }
  Conflicts layout;
  layout.compare("SDK version", sdk_version(plugin.sdk_major, plugin.sdk_minor),
                 sdk_version(CLEAVE_SDK_MAJOR, CLEAVE_SDK_MINOR));
  layout.compare("descriptor size", size_t{plugin.struct_size}, sizeof(cleave_plugin));
  if (layout.any()) return layout.then("rebuild it with this program's SDK");

  Conflicts identity;
  if (plugin.kind != kind) identity.add("kind", kind_name(plugin.kind), kind_name(kind));
  identity.compare("name", text(plugin.name), std::string_view(name));
  if (identity.any()) return identity.then("rename the file after what is in it");

  Conflicts build;
  compare_abi(build, plugin, kind, host);
  if (build.any()) return build.then("rebuild it with the compiler and LibTorch of this program");
  return "";
}

}  // namespace cleave
