// A checkpoint's export is the folder that the run itself writes, byte for byte.
#include <gtest/gtest.h>

#include <sstream>

#include "checkpoint/export_checkpoint.h"
#include "training.h"

namespace cleave::test {
namespace {

void expect_same_export(const TemporaryFolder& folder, RunConfig config, const Layout& layout) {
  config.model.export_folder = folder.path() / "by the run";
  train_until(2, config, layout);
  const std::filesystem::path to = folder.path() / "from the checkpoint";
  std::ostringstream console;
  export_checkpoint(config.checkpoint.directory, to, config.model.export_dtype, console);
  const auto expected = read_files(config.model.export_folder);
  EXPECT_EQ(expected.size(), 2);  // config.json and the weights
  EXPECT_EQ(read_files(to), expected);
}

class ExportOf : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ExportOf,
                         testing::Values(one_rank(), ddp(2), zero(1, 2), zero(2, 2), zero(3, 2),
                                         fsdp(2), tensor_parallel(2), tensor_parallel(2, true),
                                         pipeline(2), pipeline(2, "interleaved-1f1b")));

TEST_P(ExportOf, ACheckpointIsTheRuns) {
  for (const bool tied : {false, true})
    for (const char* dtype : {"float32", "bfloat16"}) {
      const TemporaryFolder folder;
      RunConfig config = resume_config(folder);
      config.model.tie_word_embeddings = tied;
      config.model.export_dtype = dtype;
      expect_same_export(folder, config, GetParam());
    }
}

TEST(ExportOfAnImport, ACheckpointIsTheRuns) {
  const TemporaryFolder first, second;
  RunConfig config = resume_config(first);
  config.model.export_folder = first.path() / "model";
  config.model.export_dtype = "bfloat16";
  train_until(1, config, one_rank());
  RunConfig imported = resume_config(second);
  imported.model.path = config.model.export_folder;
  imported.model.init = "pretrained";
  expect_same_export(second, imported, ddp(2));
}

}  // namespace
}  // namespace cleave::test
