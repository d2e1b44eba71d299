#include "support/temporary_folder.h"

#include <stdlib.h>

#include <string>

namespace cleave::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "cleave-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;  // a killed program may still write into it
  std::filesystem::remove_all(path_, error);
}

}  // namespace cleave::test
