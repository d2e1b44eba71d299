// Values for all options of the mpi plugin, as the host would hand them over.
#pragma once

#include <vector>

#include "ranks.h"

namespace cleave::testing {

/// Defaults, but for those that a variant or a test sets.
inline std::vector<cleave_option_value> mpi_options(const Variant& variant,
                                                    int64_t max_message_bytes = 1 << 30,
                                                    const char* pml = "auto",
                                                    const char* link_file = "") {
  const int64_t segment_bytes = variant.segment_bytes > 0 ? variant.segment_bytes : 1 << 17;
  return {{"segment_bytes", CLEAVE_OPTION_BYTES, segment_bytes, 0, "", nullptr, 0},
          {"max_message_bytes", CLEAVE_OPTION_BYTES, max_message_bytes, 0, "", nullptr, 0},
          {"algorithm", CLEAVE_OPTION_ENUM, 0, 0, variant.algorithm, nullptr, 0},
          {"link_file", CLEAVE_OPTION_PATH, 0, 0, link_file, nullptr, 0},
          {"wire", CLEAVE_OPTION_ENUM, 0, 0, variant.wire, nullptr, 0},
          {"pml", CLEAVE_OPTION_ENUM, 0, 0, pml, nullptr, 0},
          {"devices", CLEAVE_OPTION_STRING_LIST, 0, 0, "", nullptr, 0}};
}

}  // namespace cleave::testing
