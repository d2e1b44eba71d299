#include "plugin_note.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/error.h"

namespace cleave {
namespace {

constexpr uint64_t kMaxTableBytes = 1 << 20;  // notes, dynamic table; real ones have some hundred
constexpr uint64_t kUsualInitialisersBytes = sizeof(void*);  // frame_dummy of crtbeginS.o
constexpr uint64_t kFixedFields = 4 * sizeof(uint32_t);      // magic to sdk_minor, in every SDK
constexpr std::string_view kDamaged = "; build or copy it again";

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "name this machine's ELF number"
#endif
constexpr unsigned char kByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    case EM_S390:
      return "s390";
    default:
      return message("number ", machine);
  }
}

std::string type_name(uint16_t type) {
  if (type == ET_REL) return "an object file";
  if (type == ET_EXEC) return "a program";
  return type == ET_CORE ? "a core dump" : message("an ELF file of type ", type);
}

/// Reads pieces of a file and never beyond its end. Reads instead of mapping: a file that shrinks
/// meanwhile is an error here and would be a SIGBUS there.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
      throw ConfigError("is not a regular file; put the plugin's library there");
    size_ = std::filesystem::file_size(path, error);
    stream_.open(path, std::ios::binary);
    if (error || !stream_)
      throw ConfigError(
          message("cannot be read: ", error ? error.message() : std::string(std::strerror(errno)),
                  "; check the file's permissions"));
    if (size_ == 0) throw ConfigError(message("is empty (0 bytes)", kDamaged));
  }

  uint64_t size() const { return size_; }

  void check_range(const char* what, uint64_t offset, uint64_t length) {
    if (offset <= size_ && length <= size_ - offset) return;
    throw ConfigError(message("is truncated: its ", what, " needs ", length, " bytes from ", offset,
                              " on, the file has ", size_, kDamaged));
  }

  void read(const char* what, uint64_t offset, void* to, uint64_t length) {
    check_range(what, offset, length);
    stream_.seekg(static_cast<std::streamoff>(offset));
    if (!stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(length)))
      throw ConfigError(message("cannot be read at byte ", offset, kDamaged));
  }

 private:
  std::ifstream stream_;
  uint64_t size_ = 0;
};

/// The bytes that say what the rest of an ELF file looks like.
void check_ident(ElfFile& file) {
  unsigned char ident[EI_NIDENT] = {};
  const uint64_t known = std::min<uint64_t>(file.size(), SELFMAG);
  file.read("ELF header", 0, ident, known);
  if (std::memcmp(ident, ELFMAG, known) != 0)
    throw ConfigError("is not an ELF library; build it with cleave_add_plugin");
  file.read("ELF header", 0, ident, EI_NIDENT);
  if (ident[EI_CLASS] == ELFCLASS32)
    throw ConfigError("its ELF class is 32-bit where 64-bit is needed; build it for this machine");
  if (ident[EI_CLASS] != ELFCLASS64)
    throw ConfigError(message("its ELF class is ", int{ident[EI_CLASS]}, kDamaged));
  if (ident[EI_DATA] != kByteOrder)
    throw ConfigError("its byte order is not this machine's; build it for this machine");
}

Elf64_Ehdr read_header(ElfFile& file) {
  check_ident(file);
  Elf64_Ehdr header;
  file.read("ELF header", 0, &header, sizeof header);
  if (header.e_machine != kMachine)
    throw ConfigError(message("its architecture is ", machine_name(header.e_machine), " where ",
                              machine_name(kMachine), " is needed; build it for this machine"));
  if (header.e_type != ET_DYN)
    throw ConfigError(message("is ", type_name(header.e_type),
                              ", not a shared library; build it with cleave_add_plugin"));
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0)
    throw ConfigError(message("is damaged (", header.e_phnum, " program headers of ",
                              header.e_phentsize, " bytes)", kDamaged));
  // Linkers write the section headers last, so a file that was cut anywhere fails here at the
  // latest
  file.check_range("section headers", header.e_shoff,
                   uint64_t{header.e_shnum} * header.e_shentsize);
  return header;
}

std::vector<Elf64_Phdr> read_segments(ElfFile& file) {
  const Elf64_Ehdr header = read_header(file);
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  file.read("program headers", header.e_phoff, segments.data(),
            segments.size() * sizeof(Elf64_Phdr));
  for (const Elf64_Phdr& segment : segments)
    if (segment.p_type == PT_LOAD || segment.p_type == PT_NOTE)
      file.check_range("segment", segment.p_offset, segment.p_filesz);
  return segments;
}

cleave_identity to_identity(const char* content, uint64_t length) {
  if (length < kFixedFields)
    throw ConfigError(message("its Cleave note has ", length,
                              " bytes; rebuild it with this "
                              "program's SDK"));
  cleave_identity identity = {};
  std::memcpy(&identity, content, std::min<uint64_t>(length, sizeof identity));
  const bool same_sdk = identity.magic == CLEAVE_PLUGIN_MAGIC &&
                        identity.sdk_major == CLEAVE_SDK_MAJOR &&
                        identity.sdk_minor == CLEAVE_SDK_MINOR;
  if (same_sdk && length != sizeof identity)
    throw ConfigError(message("its Cleave note has ", length, " bytes where ", sizeof identity,
                              " are needed; rebuild it with this program's SDK"));
  return identity;
}

std::vector<char> read_table(ElfFile& file, const Elf64_Phdr& segment) {
  if (segment.p_filesz > kMaxTableBytes)
    throw ConfigError(message("is damaged (a table of ", segment.p_filesz, " bytes)", kDamaged));
  std::vector<char> bytes(segment.p_filesz);
  file.read("segment", segment.p_offset, bytes.data(), bytes.size());
  return bytes;
}

bool has_own_initialisers(const std::vector<char>& dynamic) {
  for (uint64_t at = 0; dynamic.size() - at >= sizeof(Elf64_Dyn); at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, dynamic.data() + at, sizeof entry);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_INIT_ARRAYSZ) return entry.d_un.d_val > kUsualInitialisersBytes;
  }
  return false;
}

/// Visits the notes of one segment: header, owner, content, each padded to `alignment`.
void find_note(const std::vector<char>& bytes, uint64_t alignment,
               std::optional<cleave_identity>& found) {
  const auto padded = [&](uint64_t length) {
    return (length + alignment - 1) / alignment * alignment;
  };
  constexpr std::string_view kOwner(CLEAVE_NOTE_OWNER, sizeof CLEAVE_NOTE_OWNER);
  for (uint64_t at = 0; bytes.size() - at >= sizeof(Elf64_Nhdr);) {
    Elf64_Nhdr note;
    std::memcpy(&note, bytes.data() + at, sizeof note);
    // 32-bit lengths: these sums can't overflow
    const uint64_t owner = at + sizeof note;
    const uint64_t content = at + padded(sizeof note + uint64_t{note.n_namesz});
    if (content + note.n_descsz > bytes.size())
      throw ConfigError(
          message("its notes are damaged (one needs ", note.n_descsz, " bytes)", kDamaged));
    if (note.n_type == CLEAVE_NOTE_TYPE && note.n_namesz == kOwner.size() &&
        std::memcmp(bytes.data() + owner, kOwner.data(), kOwner.size()) == 0) {
      if (found)
        throw ConfigError("has two Cleave notes; use CLEAVE_EXPORT_PLUGIN once in a library");
      found = to_identity(bytes.data() + content, note.n_descsz);
    }
    at = std::min<uint64_t>(at + padded(content - at + note.n_descsz), bytes.size());
  }
}

}  // namespace

PluginNote read_plugin_note(const std::filesystem::path& path) {
  ElfFile file(path);
  std::optional<cleave_identity> identity;
  bool runs_initialisers = false;
  for (const Elf64_Phdr& segment : read_segments(file)) {
    if (segment.p_type != PT_NOTE && segment.p_type != PT_DYNAMIC) continue;
    const std::vector<char> bytes = read_table(file, segment);
    if (segment.p_type == PT_DYNAMIC)
      runs_initialisers = has_own_initialisers(bytes);
    else
      find_note(bytes, segment.p_align == 8 ? 8 : 4, identity);
  }
  if (!identity)
    throw ConfigError(
        "not a Cleave plugin (it has no note .note.cleave); export a descriptor with "
        "CLEAVE_EXPORT_PLUGIN");
  return {*identity, runs_initialisers};
}

}  // namespace cleave
