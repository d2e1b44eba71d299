// Weights out: after training, or as they would begin.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "config/run_config.h"
#include "core/model.h"

namespace cleave {

/// An export that is prepared before step 1, so that what can be refused is refused then.
class ModelExport {
 public:
  /// ConfigError when config.model.export_folder can't be written.
  ModelExport(const RunConfig& config, const std::vector<Parameter*>& parameters);

  /// Writes all parameters; `value` gives the whole of one in float32. Says so on `out`.
  void write(const std::function<at::Tensor(const Parameter&)>& value, std::ostream& out) const;

 private:
  const std::vector<Parameter*>& parameters_;
  std::filesystem::path folder_;
  std::string dtype_;
  std::string config_text_;
};

/// `host export`: imports or initialises the weights and writes them, one tensor at a time, without
/// training. Needs neither data nor other ranks.
void export_initial(const RunConfig& config, std::ostream& out);

}  // namespace cleave
