#include "plugin_identity.h"

#include <cstdlib>
#include <cstring>
#include <ios>
#include <type_traits>

#include "cleave/abi.h"
#include "cleave/error.h"

namespace cleave {
namespace {

/// "gcc" of "gcc 12", "Open MPI" of "Open MPI 5"
std::string family(const std::string& versioned) {
  return versioned.substr(0, versioned.find_first_of("0123456789") - 1);
}

/// The first `parts` parts: "2.11" of "2.11.0"
std::string version_prefix(const std::string& version, int parts) {
  size_t end = version.find('.');
  for (int part = 1; part < parts && end != version.npos; ++part) end = version.find('.', end + 1);
  return version.substr(0, end);
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

const char* sanitizer_names(uint32_t bits) {
  constexpr const char* kNames[] = {"none", "address", "thread", "address and thread"};
  return kNames[bits & 3];
}

const char* on_off(uint32_t flag) {
  return flag ? "on" : "off";
}

const char* kind_name(uint32_t kind) {
  if (kind == CLEAVE_COMMUNICATION) return "communication";
  return kind == CLEAVE_STRATEGY ? "strategy" : "unknown";
}

class Conflicts {
 public:
  void compare(const char* field, const std::string& plugin, const std::string& wanted) {
    if (plugin != wanted) add(field, plugin, wanted);
  }
  void add(const char* field, const std::string& plugin, const std::string& wanted) {
    if (!text_.empty()) text_ += ", ";
    text_ += message(field, " is ", or_none(plugin), " where ", or_none(wanted), " is needed");
  }
  bool any() const { return !text_.empty(); }
  std::string then(const char* remedy) const { return text_ + "; " + remedy; }

 private:
  std::string text_;
};

std::string sdk_version(const cleave_identity& identity) {
  return message(identity.sdk_major, ".", identity.sdk_minor);
}

std::string find_layout_conflict(const cleave_identity& plugin) {
  const std::string wanted = message(CLEAVE_SDK_MAJOR, ".", CLEAVE_SDK_MINOR);
  Conflicts layout;
  layout.compare("SDK version", sdk_version(plugin), wanted);
  layout.compare("descriptor size", message(plugin.struct_size), message(sizeof(cleave_plugin)));
  if (!layout.any()) return "";
  const bool newer = plugin.sdk_major > CLEAVE_SDK_MAJOR ||
                     (plugin.sdk_major == CLEAVE_SDK_MAJOR && plugin.sdk_minor > CLEAVE_SDK_MINOR);
  return layout.then(newer ? "rebuild it with this program's SDK, or update this program"
                           : "rebuild it with this program's SDK");
}

void compare_used_libraries(Conflicts& conflicts, const cleave_abi& plugin, const cleave_abi& host,
                            bool uses_torch) {
  const std::string torch = printable(plugin.torch_version);
  const std::string host_torch = printable(host.torch_version);
  if (uses_torch && version_prefix(torch, 2) != version_prefix(host_torch, 2))
    conflicts.add("LibTorch", torch, host_torch);
  const std::string cuda = printable(plugin.cuda_version), host_cuda = printable(host.cuda_version);
  if (!cuda.empty() && !host_cuda.empty() &&
      version_prefix(cuda, 1) != version_prefix(host_cuda, 1))
    conflicts.add("CUDA", cuda, host_cuda);
  const std::string mpi = printable(plugin.mpi), host_mpi = printable(host.mpi);
  if (!mpi.empty() && !host_mpi.empty() && family(mpi) != family(host_mpi))
    conflicts.add("MPI", mpi, host_mpi + " (whose launcher started this program)");
}

std::string find_build_conflict(const cleave_identity& plugin, const cleave_abi& host) {
  const cleave_abi& abi = plugin.abi;
  Conflicts conflicts;
  compare_used_libraries(conflicts, abi, host,
                         plugin.kind == CLEAVE_STRATEGY || abi.torch_version[0] != '\0');
  const std::string compiler = printable(abi.compiler), host_compiler = printable(host.compiler);
  if (family(compiler) != family(host_compiler)) conflicts.add("compiler", compiler, host_compiler);
  conflicts.compare("standard library", printable(abi.standard_library),
                    printable(host.standard_library));
  conflicts.compare("architecture", printable(abi.architecture), printable(host.architecture));
  conflicts.compare("C++11 ABI", message(abi.cxx11_abi), message(host.cxx11_abi));
  conflicts.compare("sanitizer", sanitizer_names(abi.sanitizers), sanitizer_names(host.sanitizers));
  conflicts.compare("debug containers", on_off(abi.debug_containers),
                    on_off(host.debug_containers));
  if (!conflicts.any()) return "";
  return conflicts.then("rebuild it with the compiler, flags and libraries of this program");
}

/// Finds the first field that differs; call in the order of the fields.
class NoteComparison {
 public:
  template <size_t kCapacity>
  void operator()(const char* field, const char (&note)[kCapacity],
                  const char (&descriptor)[kCapacity]) {
    compare(field, printable(note), printable(descriptor));
  }
  void operator()(const char* field, uint32_t note, uint32_t descriptor) {
    compare(field, message(note), message(descriptor));
  }
  void compare(const char* field, const std::string& note, const std::string& descriptor) {
    if (text_.empty() && note != descriptor)
      text_ = message(field, ": the note says ", or_none(note), ", the descriptor says ",
                      or_none(descriptor));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void compare_notes_abi(NoteComparison& compare, const cleave_abi& note, const cleave_abi& code) {
  compare("LibTorch", note.torch_version, code.torch_version);
  compare("compiler", note.compiler, code.compiler);
  compare("standard library", note.standard_library, code.standard_library);
  compare("architecture", note.architecture, code.architecture);
  compare("CUDA", note.cuda_version, code.cuda_version);
  compare("NCCL", note.nccl_version, code.nccl_version);
  compare("MPI", note.mpi, code.mpi);
  compare("C++11 ABI", note.cxx11_abi, code.cxx11_abi);
  compare("C++ ABI", note.gxx_abi, code.gxx_abi);
  compare("sanitizer", note.sanitizers, code.sanitizers);
  compare("debug containers", note.debug_containers, code.debug_containers);
}

}  // namespace

const char* to_string(cleave_plugin_kind kind) {
  return kind_name(kind);
}

cleave_abi host_abi() {
  cleave_abi abi = this_abi();
#ifdef CLEAVE_CUDA_VERSION
  set_text(abi.cuda_version, CLEAVE_CUDA_VERSION);
#endif
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) set_text(abi.mpi, "Open MPI");
  return abi;
}

std::string find_identity_conflict(const cleave_identity& plugin, cleave_plugin_kind kind,
                                   const std::string& name, const cleave_abi& host) {
  if (plugin.magic != CLEAVE_PLUGIN_MAGIC)
    return message("not a Cleave plugin (magic is 0x", std::hex, plugin.magic, " where 0x",
                   CLEAVE_PLUGIN_MAGIC, " is needed); remove the file or build it with the SDK");
  if (std::string conflict = find_layout_conflict(plugin); !conflict.empty()) return conflict;

  Conflicts identity;
  identity.compare("kind", kind_name(plugin.kind), kind_name(kind));
  identity.compare("name", printable(plugin.name), name);
  if (identity.any()) return identity.then("rename the file after what is in it");
  return find_build_conflict(plugin, host);
}

std::string find_note_difference(const cleave_identity& note, const cleave_identity& descriptor) {
  static_assert(std::has_unique_object_representations_v<cleave_identity>, "no padding");
  if (std::memcmp(&note, &descriptor, sizeof note) == 0) return "";
  NoteComparison compare;
  compare("magic", note.magic, descriptor.magic);
  compare("descriptor size", note.struct_size, descriptor.struct_size);
  compare.compare("SDK version", sdk_version(note), sdk_version(descriptor));
  compare.compare("kind", kind_name(note.kind), kind_name(descriptor.kind));
  compare("name", note.name, descriptor.name);
  compare("version", note.version, descriptor.version);
  compare_notes_abi(compare, note.abi, descriptor.abi);
  const std::string field = compare.text().empty() ? "the note and the descriptor differ behind "
                                                     "the end of a text"
                                                   : compare.text();
  return field + "; let CLEAVE_EXPORT_PLUGIN make both";
}

std::string describe_build(const cleave_abi& abi) {
  std::string text;
  const auto add = [&](const char* prefix, const std::string& value) {
    if (!value.empty()) text += (text.empty() ? "" : ", ") + (prefix + value);
  };
  add("LibTorch ", printable(abi.torch_version));
  add("", printable(abi.compiler));
  add("", printable(abi.standard_library));
  add("", printable(abi.architecture));
  add("CUDA ", printable(abi.cuda_version));
  add("NCCL ", printable(abi.nccl_version));
  add("", printable(abi.mpi));
  if (abi.cxx11_abi == 0) add("", "old C++ ABI");
  if (abi.sanitizers != 0) add("sanitizer ", sanitizer_names(abi.sanitizers));
  if (abi.debug_containers != 0) add("", "debug containers");
  return text;
}

}  // namespace cleave
