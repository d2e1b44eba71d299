#include "huggingface/weight_folder.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "cleave/error.h"
#include "huggingface/box_reader.h"
#include "huggingface/json_file.h"

namespace cleave {

namespace {

namespace fs = std::filesystem;

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr int64_t kMostIndexBytes = 256 << 20;

std::string place(const fs::path& file, const std::string& tensor) {
  return message(file.string(), ": tensor ", quote(tensor));
}

bool is_inverse_frequency(const std::string& name) {
  return name.ends_with("rotary_emb.inv_freq");
}

/// Tensor to file name; what the index says, with the file names checked to be plain ones.
std::map<std::string, std::string> read_index(const fs::path& index) {
  const Json json = read_json_object(index, kMostIndexBytes);
  const auto found = json.find("weight_map");
  if (found == json.end() || !found->is_object())
    throw ConfigError(message(index.string(), ": has no weight_map; download the file again"));
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : found->items()) {
    const bool is_text = file.is_string();
    if (!is_text || file.get_ref<const std::string&>().empty() ||
        fs::path(file.get_ref<const std::string&>()).has_parent_path())
      throw ConfigError(message(place(index, name), " lies in ", show(file),
                                ", which is not a file name; download the file again"));
    files[name] = file.get<std::string>();
  }
  return files;
}

}  // namespace

WeightFolder::WeightFolder(const fs::path& folder, const std::vector<ExpectedTensor>& expected,
                           bool is_tied, const std::string& declared_dtype) {
  // the order in which transformers looks
  if (fs::exists(folder / kSingle))
    open_single(folder / kSingle);
  else if (fs::exists(folder / kIndex))
    open_index(folder / kIndex);
  else
    throw ConfigError(message(folder.string(), ": has neither ", kSingle, " nor ", kIndex,
                              "; save the model as safetensors, or set model.init = \"random\""));
  std::erase_if(tensors_, [](const auto& entry) { return is_inverse_frequency(entry.first); });
  if (const auto head = tensors_.find(kHead); is_tied && head != tensors_.end()) {
    spare_head_ = head->second;
    const auto embedding = tensors_.find(kEmbedding);
    if (embedding != tensors_.end() &&
        embedding->second.tensor->shape != spare_head_->tensor->shape)
      refuse_untied("in shape");
    tensors_.erase(head);
  }
  check_expected(expected);
  check_types(declared_dtype);
}

void WeightFolder::open_single(const fs::path& file) {
  list_ = file;
  add_tensors(*files_.emplace_back(std::make_unique<SafetensorsFile>(file)));
}

void WeightFolder::open_index(const fs::path& index) {
  list_ = index;
  const auto file_of = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, name] : file_of) {
    if (names.contains(name)) continue;
    if (!fs::exists(index.parent_path() / name))
      throw ConfigError(message(place(index, tensor), " lies in ", quote(name),
                                ", which is not there; download the missing file"));
    names.insert(name);
  }
  for (const std::string& name : names) {
    SafetensorsFile& file =
        *files_.emplace_back(std::make_unique<SafetensorsFile>(index.parent_path() / name));
    for (const std::string& tensor : file.names()) {
      const auto listed = file_of.find(tensor);
      if (listed == file_of.end() || listed->second != name)
        throw ConfigError(message(
            place(file.path(), tensor), " is ",
            listed == file_of.end() ? "not in the index " : "said to lie in another file by ",
            index.string(), "; download both files again"));
    }
    add_tensors(file);
  }
  for (const auto& [tensor, name] : file_of)
    if (!tensors_.contains(tensor))
      throw ConfigError(message(place(index, tensor), " is not in ", quote(name),
                                ", where the index says; download both files again"));
}

void WeightFolder::add_tensors(const SafetensorsFile& file) {
  for (const std::string& name : file.names()) tensors_[name] = {&file, file.find(name)};
}

void WeightFolder::check_expected(const std::vector<ExpectedTensor>& expected) const {
  std::set<std::string> names;
  for (const ExpectedTensor& wanted : expected) {
    names.insert(wanted.name);
    const auto found = tensors_.find(wanted.name);
    if (found == tensors_.end())
      throw ConfigError(message(place(list_, wanted.name), " of shape ", show(Json(wanted.shape)),
                                " is missing; config.json and weights must be of one model"));
    const auto& [file, tensor] = found->second;
    if (tensor->shape != wanted.shape)
      throw ConfigError(message(place(file->path(), wanted.name), " has shape ",
                                show(Json(tensor->shape)), ", the config makes it ",
                                show(Json(wanted.shape)),
                                "; config.json and weights must be of one model"));
    if (!is_exact_in_float32(tensor->type))
      throw ConfigError(message(place(file->path(), wanted.name), " is ", name_of(tensor->type),
                                "; save the model in F32, BF16 or F16"));
  }
  for (const auto& [name, located] : tensors_)
    if (!names.contains(name))
      throw ConfigError(
          message(place(located.file->path(), name),
                  " is no part of the model that config.json describes; they must be ",
                  "of one model (attention_bias, num_hidden_layers, "
                  "tie_word_embeddings)"));
}

// Both have 16 bits: with the wrong label a file loads, to values that mean nothing.
void WeightFolder::check_types(const std::string& declared_dtype) const {
  const std::pair<const char*, ElementType> halves[] = {{"float16", ElementType::float16},
                                                        {"bfloat16", ElementType::bfloat16}};
  std::optional<ElementType> expected;
  for (const auto& [dtype, type] : halves)
    if (declared_dtype == dtype) expected = type;
  std::string reason = message("config.json says ", declared_dtype);
  for (const auto& [name, located] : tensors_) {
    const ElementType type = located.tensor->type;
    if (type == ElementType::float32) continue;
    if (expected && type != *expected)
      throw ConfigError(message(place(located.file->path(), name), " is ", name_of(type), ", but ",
                                reason, "; correct the one that is wrong"));
    if (!expected) reason = message("tensor ", quote(name), " is ", name_of(type));
    expected = type;
  }
}

const WeightFolder::Located& WeightFolder::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  CLEAVE_CHECK(found != tensors_.end(), name, " was not expected");
  return found->second;
}

void WeightFolder::read(const std::string& name, const Box& box, float* out) const {
  const Located& located = at(name);
  read_box(*located.file, *located.tensor, box, out);
}

std::optional<int64_t> WeightFolder::find_untied(int part, int parts) const {
  if (!spare_head_) return std::nullopt;
  constexpr int64_t kChunk = 1 << 18;
  const Located& embedding = at(kEmbedding);
  const int64_t total = embedding.tensor->num_elements();
  std::vector<float> a(kChunk), b(kChunk);
  const int64_t end = total / parts * (part + 1) + std::min<int64_t>(part + 1, total % parts);
  int64_t begin = total / parts * part + std::min<int64_t>(part, total % parts);
  for (; begin < end; begin += kChunk) {
    const int64_t count = std::min(kChunk, end - begin);
    read_elements(*embedding.file, *embedding.tensor, begin, count, a.data());
    read_elements(*spare_head_->file, *spare_head_->tensor, begin, count, b.data());
    if (std::memcmp(a.data(), b.data(), static_cast<size_t>(count) * sizeof(float)) == 0) continue;
    for (int64_t i = 0; i < count; ++i)
      if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return begin + i;
  }
  return std::nullopt;
}

void WeightFolder::refuse_untied(const std::string& where) const {
  throw ConfigError(message(place(spare_head_->file->path(), kHead), " differs from ", kEmbedding,
                            " ", where, ", but tie_word_embeddings is true; ",
                            "set it to false in config.json, or remove ", kHead));
}

std::string WeightFolder::description() const {
  std::string text;
  for (const auto& [name, located] : tensors_)
    text += message(name, " ", name_of(located.tensor->type), " ",
                    show(Json(located.tensor->shape)), "\n");
  return text;
}

}  // namespace cleave
