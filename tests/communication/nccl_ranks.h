// For tests of the nccl plugin alone.
#pragma once

#include "ranks.h"

/// The plugin is linked, not loaded.
extern "C" const cleave_plugin* cleave_plugin_entry_v1(void);

namespace cleave::testing {

/// nullptr and why.
cleave_communicator* create_nccl(const cleave_bootstrap& bootstrap, std::string& error,
                                 const char* socket_interface = "");

/// `body` on a thread for each rank, over one store.
void on_threads(int ranks, const std::function<void(const cleave_bootstrap&)>& body);

}  // namespace cleave::testing
