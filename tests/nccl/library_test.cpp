// libnccl.so.2 as programs find it: its name, what it exports, and that the page about it tells all of that.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "command.hpp"
#include "nccl/abi.hpp"

namespace tutti::test {
namespace {

std::set<std::string> words(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    found.insert(at->str(1));
  return found;
}

const std::set<std::string>& exported() {
  static const auto names =
      words(run_command("nm -D --defined-only " TUTTI_NCCL_LIBRARY).output, " [A-Za-z] (\\w+)\n");
  return names;
}

TEST(NcclLibrary, HasTheNameThatProgramsAskFor) {
  if (run_command("command -v readelf").output.empty()) GTEST_SKIP() << "there is no readelf";
  EXPECT_THAT(run_command("readelf -d " TUTTI_NCCL_LIBRARY).output,
              testing::HasSubstr("soname: [libnccl.so.2]"));
}

/// Without the `p` of profiling names.
std::set<std::string> functions() {
  auto names = exported();
  std::erase_if(names, [](const auto& name) { return name[0] == 'p'; });
  return names;
}

TEST(NcclLibrary, ExportsNcclsNamesAndNoOthers) {
  if (run_command("command -v nm").output.empty()) GTEST_SKIP() << "there is no nm";
  const auto names = exported();
  EXPECT_GT(functions().size(), 50U);
  for (const auto& name : names) EXPECT_THAT(name, testing::MatchesRegex("p?nccl[A-Z].*"));
  for (const auto& name : functions())
    if (name != "ncclResetDebugInitInternal") {
      EXPECT_TRUE(names.contains("p" + name)) << name;
    }
}

// PyTorch 2.15 refers to these of later versions, too.
const std::set<std::string> later{
    "ncclCommGetUniqueId",      "ncclCommGrow",     "ncclCommMemStats",
    "ncclCommResume",           "ncclCommSuspend",  "ncclGetLsaMultimemDevicePointer",
    "ncclGetPeerDevicePointer", "ncclPutSignal",    "ncclSignal",
    "ncclWaitSignal",           "ncclWinGetUserPtr"};

TEST(NcclLibrary, ExportsWhatNvidiasDoes) {
  const std::string theirs = TUTTI_NCCL_HEADER_DIR "/../lib/libnccl.so.2";
  if (!std::ifstream(theirs)) GTEST_SKIP() << "NVIDIA's library is not installed";
  if (run_command("command -v nm").output.empty()) GTEST_SKIP() << "there is no nm";
  auto wanted = words(run_command("nm -D --defined-only " + theirs).output, " [A-Za-z] (nccl\\w+)\n");
  wanted.insert(later.begin(), later.end());
  EXPECT_EQ(functions(), wanted);
}

TEST(NcclLibrary, ThePageHasEveryFunction) {
  std::ifstream file(TUTTI_NCCL_PAGE);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const auto described = words(page, "\\| `(nccl[A-Z]\\w+)` \\|");
  if (functions().empty()) GTEST_SKIP() << "there is no nm";
  EXPECT_EQ(described, functions());
}

// Threads of its own may be under way.
TEST(NcclLibrary, StaysWhereAProgramLetsGoOfIt) {
  void* library = ::dlopen(TUTTI_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_EQ(::dlclose(library), 0);
  EXPECT_NE(::dlopen(TUTTI_NCCL_LIBRARY, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(NcclLibrary, IsLoadedAndFindsItsFunctions) {
  void* library = ::dlopen(TUTTI_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const auto& name : exported()) EXPECT_NE(::dlsym(library, name.c_str()), nullptr) << name;
  auto* version = reinterpret_cast<nccl::ncclResult_t (*)(int*)>(::dlsym(library, "ncclGetVersion"));
  int code = 0;
  EXPECT_EQ(version(&code), nccl::ncclSuccess);
  EXPECT_EQ(code, 22809);
  auto* init = reinterpret_cast<nccl::ncclResult_t (*)(nccl::ncclComm_t*, int, const int*)>(
      ::dlsym(library, "pncclCommInitAll"));
  auto* last = reinterpret_cast<const char* (*)(nccl::ncclComm_t)>(::dlsym(library, "ncclGetLastError"));
  nccl::ncclComm_t comm = nullptr;
  const int device = 1 << 20;
  EXPECT_NE(init(&comm, 1, &device), nccl::ncclSuccess);  // no machine has it
  EXPECT_STRNE(last(nullptr), "");
  EXPECT_EQ(comm, nullptr);
}

}  // namespace
}  // namespace tutti::test
