// All ranks must run the same thing: what each rank was told and built with is compared at the
// start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/comm.h"

namespace cleave {

/// A thing that must be equal on all ranks, as a hash: "the configuration", "plugin strategy/x".
struct Fingerprint {
  std::string what;
  uint64_t hash;
};

/// xxh3 of a text, of a file's content.
uint64_t fingerprint(const std::string& text);
uint64_t fingerprint_file(const std::string& path);

/// Of a plugin: its file's content and the values of its options that ranks must share.
Fingerprint plugin_fingerprint(const std::string& what, const std::string& file,
                               const std::string& shared_values);

/// Collective. Throws the same ConfigError on every rank when a fingerprint differs: what, and the
/// ranks that differ from the majority (from rank 0 when there is none).
void check_agreement(Comm& world, const std::vector<Fingerprint>& fingerprints);

}  // namespace cleave
