// Files of results, and what is left of them when the work fails.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file_descriptor.hpp"
#include "output_file.hpp"
#include "own_folder.hpp"
#include "thrown.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds patience(20);

class OutputFiles : public testing::Test {
 protected:
  static std::string text_in(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const test::OwnFolder own_;
  const fs::path& folder_ = own_.path();
  const fs::path file_ = folder_ / "results.json";
};

TEST_F(OutputFiles, HoldWhatWasWrittenLast) {
  OutputFile file(file_);
  file.write("the first of two");
  file.write("second");
  EXPECT_EQ(text_in(file_), "second");
}

// The work between may be ended by a signal.
TEST_F(OutputFiles, AreNotThereBeforeTheyAreWritten) {
  OutputFile file(file_);
  EXPECT_FALSE(fs::exists(file_));
  file.write("text");
  EXPECT_TRUE(fs::exists(file_));
}

TEST_F(OutputFiles, MayBeLinks) {
  const fs::path link = folder_ / "link";
  fs::create_symlink(file_, link);
  OutputFile file(link);
  EXPECT_FALSE(fs::exists(file_));
  file.write("text");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_in(file_), "text");
}

TEST_F(OutputFiles, AreTheSameByAnyName) {
  const std::string name = file_;
  fs::create_directory(folder_ / "inner");
  const fs::path link = folder_ / "link", folder_link = folder_ / "folder-link";
  fs::create_symlink("results.json", link);  // which is not there yet
  fs::create_directory_symlink(folder_, folder_link);
  for (const fs::path& other : {fs::relative(file_), folder_ / "." / "results.json", link,
                                folder_ / "inner" / ".." / "results.json", folder_link / "results.json"}) {
    EXPECT_TRUE(is_same_file(name, other)) << other;
    EXPECT_TRUE(is_same_file(other, name)) << other;
  }
  EXPECT_TRUE(is_same_file("results.json", "./results.json"));
  EXPECT_FALSE(is_same_file(name, folder_ / "inner" / "results.json"));
  EXPECT_FALSE(is_same_file(name, folder_ / "others.json"));
  EXPECT_FALSE(is_same_file("-", name));
  EXPECT_TRUE(is_same_file("-", "/dev/stdout"));
  std::ofstream(file_) << "of yesterday";
  fs::create_hard_link(file_, folder_ / "other");
  EXPECT_TRUE(is_same_file(name, folder_ / "other"));
}

TEST_F(OutputFiles, KeepWhatWasThereBeforeWhenNothingIsWritten) {
  std::ofstream(file_) << "of yesterday";
  const OutputFile file(file_);
  EXPECT_EQ(text_in(file_), "of yesterday");
}

TEST_F(OutputFiles, KeepWhatWasThereBeforeOnAFullDisk) {
  std::ofstream(file_) << "of yesterday";
  OutputFile file(file_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few{.rlim_cur = 4, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  std::fflush(nullptr);  // what is printed may go to a file as well
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &few), 0);
  bool refused = false;
  try {
    file.write("of today, and longer");
  } catch (const Error&) {
    refused = true;
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(refused);
  EXPECT_EQ(text_in(file_), "of yesterday");
  EXPECT_FALSE(fs::exists(file_.string() + ".new"));
}

TEST_F(OutputFiles, KeepTheirPermissions) {
  std::ofstream(file_) << "of yesterday";
  constexpr auto mine = fs::perms::owner_read | fs::perms::owner_write;
  fs::permissions(file_, mine);
  OutputFile(file_).write("text");
  EXPECT_EQ(text_in(file_), "text");
  EXPECT_EQ(fs::status(file_).permissions(), mine);
}

TEST_F(OutputFiles, KeepTheirOtherNames) {
  std::ofstream(file_) << "before";
  const fs::path other = folder_ / "other";
  fs::create_hard_link(file_, other);
  OutputFile(file_).write("after");
  EXPECT_EQ(text_in(other), "after");
}

TEST_F(OutputFiles, AreNotWhatSomebodyElseLeftUnderTheNameOfADraft) {
  const fs::path left = folder_ / "results.json.new";
  std::ofstream(left) << "half of";
  std::ofstream(file_) << "of yesterday";
  std::ifstream reading(file_);
  OutputFile(file_).write("results");
  EXPECT_EQ(text_in(file_), "results");
  EXPECT_EQ(text_in(left), "half of");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reading), {}), "of yesterday")
      << "who reads it meanwhile reads the whole of one";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2) << "no other draft stays";
}

TEST_F(OutputFiles, AreNotReplacedUnderADescriptor) {
  std::ofstream(file_) << "before, and longer than what follows";
  const FileDescriptor open(::open(file_.c_str(), O_RDWR | O_CLOEXEC));
  OutputFile("/dev/fd/" + std::to_string(open.get())).write("after");
  std::array<char, 64> text{};
  EXPECT_EQ(::pread(open.get(), text.data(), text.size(), 0), 5);
  EXPECT_STREQ(text.data(), "after");
}

TEST_F(OutputFiles, MayBeFifos) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  OutputFile file(fifo);
  pollfd seen{.fd = reader.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&seen, 1, 0), 0) << "the reader would take this for the end";
  file.write("text");
  std::array<char, 8> text{};
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 4);
  EXPECT_STREQ(text.data(), "text");
}

TEST_F(OutputFiles, WaitForNoReaderToComeWithoutEnd) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto error = test::thrown_by([&] { const OutputFile file(fifo, patience); });
  EXPECT_EQ(error.text, "tutti: system: cannot write " + fifo.string() + ": it is a FIFO that nobody reads");
}

// A pager's, say.
TEST_F(OutputFiles, WaitForAReaderWhoPauses) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const FileDescriptor reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  OutputFile file(fifo, patience);
  const std::string more_than_fits(1 << 20, 'x');
  std::thread writes([&] { EXPECT_NO_THROW(file.write(more_than_fits)); });
  std::this_thread::sleep_for(5 * patience);
  std::size_t read = 0;
  std::array<char, 4096> some{};
  for (pollfd more{.fd = reader.get(), .events = POLLIN, .revents = 0};
       read < more_than_fits.size() && ::poll(&more, 1, 60'000) > 0;)
    read += static_cast<std::size_t>(std::max<ssize_t>(::read(reader.get(), some.data(), some.size()), 0));
  writes.join();
  EXPECT_EQ(read, more_than_fits.size());
}

TEST_F(OutputFiles, MayBeDevices) {
  { OutputFile("/dev/null").write("text"); }
  EXPECT_TRUE(fs::exists("/dev/null"));
  EXPECT_THROW(OutputFile("/dev/full").write("text"), Error);
  EXPECT_TRUE(fs::exists("/dev/full"));
}

TEST_F(OutputFiles, ThatCannotBeMadeAreRefused) {
  using Refused = std::pair<fs::path, const char*>;
  for (const auto& [file, why] : {Refused{folder_, "Is a directory"},
                                  {folder_ / "none" / "x", "No such file or directory"},
                                  {"/dev/null/x", "Not a directory"}}) {
    const auto error = test::thrown_by([&to = file] { OutputFile{to}; });
    EXPECT_EQ(error.code, ErrorCode::system);
    EXPECT_EQ(error.text, "tutti: system: cannot write " + file.string() + ": " + why);
  }
}

}  // namespace
}  // namespace tutti
