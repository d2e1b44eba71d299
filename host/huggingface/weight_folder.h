// The weights of a model folder: model.safetensors, or the shards that
// model.safetensors.index.json names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/placement.h"
#include "huggingface/safetensors.h"

namespace cleave {

/// A tensor that the model needs.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// Opened and checked as a whole, read in parts: nothing but headers is read before read().
class WeightFolder {
 public:
  /// The folder must hold every `expected` tensor in that shape, in F32, BF16 or F16, and no other;
  /// except lm_head.weight where `is_tied` (find_untied() compares it), and the inverse frequencies
  /// that old versions of transformers saved (...rotary_emb.inv_freq), which follow from the
  /// config. `declared_dtype` is config.json's: F16 where that says bfloat16, or the other way
  /// round, is refused. ConfigError with file and tensor.
  WeightFolder(const std::filesystem::path& folder, const std::vector<ExpectedTensor>& expected,
               bool is_tied, const std::string& declared_dtype);

  /// The part `box` of the tensor `name`, row-major, converted exactly. Reads the bytes of the box
  /// alone (whole pages where it leaves less than one between its rows).
  void read(const std::string& name, const Box& box, float* out) const;

  /// Of a tied model whose folder has a head all the same: the first element of part `part` of
  /// `parts` in which it is not the embedding, bit for bit. Nothing when they are equal.
  std::optional<int64_t> find_untied(int part, int parts) const;
  /// The ConfigError for what find_untied() found: `where` is "at element 5".
  [[noreturn]] void refuse_untied(const std::string& where) const;

  /// Names, dtypes and shapes, a line each: what must be the same on all ranks.
  std::string description() const;

 private:
  struct Located {
    const SafetensorsFile* file;
    const TensorView* tensor;
  };

  void open_single(const std::filesystem::path& file);
  void open_index(const std::filesystem::path& file);
  void add_tensors(const SafetensorsFile& file);
  void check_expected(const std::vector<ExpectedTensor>& expected) const;
  void check_types(const std::string& declared_dtype) const;
  const Located& at(const std::string& name) const;

  std::filesystem::path list_;  // the file that lists all tensors
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Located> tensors_;
  std::optional<Located> spare_head_;  // of a tied model
};

}  // namespace cleave
