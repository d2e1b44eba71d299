#include "huggingface/json_file.h"

#include <set>
#include <vector>

#include "cleave/error.h"
#include "data/mapped_file.h"

namespace cleave {

namespace {

constexpr size_t kLongestShown = 80;
constexpr int kDeepest = 100;  // writing a value takes stack for each level

// "parse error at line 1, column 2: ..." without the library's own number in front.
std::string reason_of(const nlohmann::json::exception& error) {
  std::string text = error.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != std::string::npos)
    text.erase(0, end + 2);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

/// Refuses keys that an object has twice (the parser itself keeps the last one), and values that
/// are nested too deep.
class StrictEvents {
 public:
  explicit StrictEvents(const std::string& where) : where_(where) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest)
      throw ConfigError(message(where_, ": is nested more than ", kDeepest,
                                " levels deep; write or download the file again"));
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key &&
        !open_.back().insert(parsed.get_ref<const std::string&>()).second)
      throw ConfigError(
          message(where_, ": key ", show(parsed), " stands there twice; remove one of the two"));
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> open_;  // keys of the objects around the current position
};

}  // namespace

Json parse_json_object(const std::string& where, std::string_view text) {
  Json value;
  try {
    value = Json::parse(text, StrictEvents(where));
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(message(where, ": not valid JSON: ", reason_of(error),
                              "; write or download the file again"));
  }
  if (!value.is_object())
    throw ConfigError(message(where, ": is ", value.type_name(), ", not an object of keys and ",
                              "values; write or download the file again"));
  return value;
}

Json read_json_object(const std::filesystem::path& path, int64_t most_bytes) {
  const MappedFile file(path);
  if (file.size_bytes() > most_bytes)
    throw ConfigError(message(path.string(), ": has ", file.size_bytes(), " bytes, more than ",
                              most_bytes, "; give the folder of a model"));
  return parse_json_object(path.string(), {reinterpret_cast<const char*>(file.data()),
                                           static_cast<size_t>(file.size_bytes())});
}

std::string show(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "...";
  return text;
}

std::string quote(const std::string& name) {
  return show(name);
}

}  // namespace cleave
