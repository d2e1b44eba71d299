// Operations as messages, plans and traces spell them.
#pragma once

#include "cleave/communicator.h"

namespace cleave {

constexpr const char* to_string(cleave_op op) {
  constexpr const char* kNames[CLEAVE_NUM_OPS] = {"all_reduce", "reduce_scatter", "all_gather",
                                                  "broadcast",  "all_to_all",     "send",
                                                  "recv",       "barrier"};
  return kNames[op];
}

}  // namespace cleave
