// Files of results, and what is left of them when the work fails.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "output_file.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public testing::Test {
 protected:
  OutputFiles() { fs::create_directory(folder_); }
  ~OutputFiles() override { fs::remove_all(folder_); }

  static std::string text_in(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("tutti-output-file-test-" + std::to_string(::getpid()));
  const fs::path file_ = folder_ / "results.json";
};

TEST_F(OutputFiles, HoldWhatWasWrittenLast) {
  {
    const OutputFile file(file_);
    file.write("the first of two");
    file.write("second");
  }
  EXPECT_EQ(text_in(file_), "second");
}

// The work between may be ended by a signal.
TEST_F(OutputFiles, AreNotThereBeforeTheyAreWritten) {
  const OutputFile file(file_);
  EXPECT_FALSE(fs::exists(file_));
  file.write("text");
  EXPECT_TRUE(fs::exists(file_));
}

TEST_F(OutputFiles, MayBeLinks) {
  const fs::path link = folder_ / "link";
  fs::create_symlink(file_, link);
  OutputFile(link).write("text");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_in(file_), "text");
}

TEST_F(OutputFiles, KeepWhatWasThereBeforeWhenNothingIsWritten) {
  std::ofstream(file_) << "of yesterday";
  const OutputFile file(file_);
  EXPECT_EQ(text_in(file_), "of yesterday");
}

TEST_F(OutputFiles, MayBeDevices) {
  { OutputFile("/dev/null").write("text"); }
  EXPECT_TRUE(fs::exists("/dev/null"));
  EXPECT_THROW(OutputFile("/dev/full").write("text"), Error);
  EXPECT_TRUE(fs::exists("/dev/full"));
}

TEST_F(OutputFiles, ThatCannotBeMadeAreRefused) {
  for (const fs::path& file : {folder_, folder_ / "none" / "x", fs::path("/dev/null/x")}) {
    try {
      OutputFile{file};
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::system);
      EXPECT_NE(std::string(error.what()).find("cannot write " + file.string()), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace tutti
