// Directories of /sys come and go with their devices, also while they are read.
#include <gmock/gmock.h>

#include <string>
#include <system_error>

#include "base/names_in.hpp"
#include "own_folder.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Entry {
  std::filesystem::path name{};
  [[nodiscard]] const std::filesystem::path& path() const { return name; }
};

/// Of a directory of "b", "a" and more, which cannot be read any further. As a directory_iterator, but that
/// its ++, which throws then, is left out.
class Breaking {
 public:
  Breaking() = default;
  explicit Breaking(int entries) : left_(entries) {}
  const Entry* operator->() const { return &entry_; }
  void increment(std::error_code& failure) {
    entry_.name = "/sys/a";
    if (--left_ == 0) failure = std::make_error_code(std::errc::io_error);
  }
  bool operator!=(const Breaking& other) const { return left_ != other.left_; }

 private:
  int left_ = -1;
  Entry entry_{"/sys/b"};
};

TEST(Names, OfADirectoryThatBreaksMidwayAreThoseBefore) {
  std::error_code failure;
  EXPECT_THAT(names_from(Breaking(2), failure), ElementsAre("a", "b"));
  EXPECT_EQ(failure, std::errc::io_error);
  EXPECT_THAT(names_from(Breaking(2), failure), IsEmpty()) << "it could not be opened";
}

TEST(Names, AreSorted) {
  const test::OwnFolder folder;
  for (const char* name : {"mlx5_1", "eth0", "mlx5_0"}) folder.write(name, "");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("eth0", "mlx5_0", "mlx5_1"));
  EXPECT_THAT(names_in(folder.path() / "none"), IsEmpty());
}

}  // namespace
}  // namespace tutti
