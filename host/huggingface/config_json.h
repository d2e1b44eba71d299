// A model folder's config.json: qwen2 and llama decoders, read and written.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"
#include "huggingface/json_file.h"

namespace cleave {

/// `<folder>/config.json`, all of it. ConfigError with file, key and value when the model that it
/// describes is not one that this program computes: another model_type, scaled rotary embedding,
/// sliding window, biases of the feed-forward part, dropout, quantised weights, ... Keys that don't
/// change the function are let be.
Json read_model_config(const std::filesystem::path& folder);

/// The values of the [model] keys of the same name; "architecture" is model_type. A key that is
/// absent or null is left out. `config` is read_model_config()'s.
std::vector<std::pair<std::string, Json>> model_values(const Json& config);

/// What a config.json says of this model: `source` with dtype replaced, or (`source` is null) a new
/// one. `dtype` is float32 or bfloat16; `sequence_length` becomes the longest position.
Json make_model_config(const ModelConfig& model, const Json& source, const std::string& dtype,
                       int64_t sequence_length);

/// Names `dtype` as that of the weights, under the key that the config has for it.
void set_declared_dtype(Json& config, const std::string& dtype);

/// The dtype that the config names for its weights ("bfloat16"); "" when it names none.
std::string declared_dtype(const Json& config);

}  // namespace cleave
