// tutti/mpi.hpp under mpirun: ranks/ranks.cpp checks, and says what it has seen.
#include <gtest/gtest.h>

#include <string>

#include "command.hpp"
#include "times_in.hpp"

namespace tutti::test {
namespace {

class FromMpi : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(TUTTI_MPI_RANKS).empty()) GTEST_SKIP() << "there is no MPI to compile with";
    if (std::string(TUTTI_MPIRUN).empty()) GTEST_SKIP() << "there is no mpirun.openmpi";
  }
  /// Every rank says "as promised" and ends with 0, unless something was wrong.
  static void expect_right(int ranks, const std::string& what) {
    // What Open MPI's own libraries leak is not ours to report.
    const auto outcome = run_command("ASAN_OPTIONS=detect_leaks=0 timeout 60 " + std::string(TUTTI_MPIRUN) +
                                     " --allow-run-as-root --oversubscribe -n " + std::to_string(ranks) +
                                     " " + TUTTI_MPI_RANKS + " " + what);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(times_in(outcome.output, what + " as promised\n"), ranks) << outcome.output;
  }
};

TEST_F(FromMpi, RanksAreThoseOfTheMpiCommunicator) { expect_right(5, "ranks"); }
TEST_F(FromMpi, OneRankAloneNeedsNobody) { expect_right(2, "alone"); }
TEST_F(FromMpi, MpiMayBeFinalizedFirst) { expect_right(3, "finalized"); }
TEST_F(FromMpi, MpiMustBeRunning) { expect_right(2, "not-running"); }
TEST_F(FromMpi, ErrorsOfMpiAreErrors) { expect_right(2, "mpi-error"); }
TEST_F(FromMpi, TwoGroupsAreNotOne) { expect_right(3, "intercommunicator"); }
TEST_F(FromMpi, AnIdThatRankZeroCannotMakeEndsAll) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan needs descriptors where the rank has none";
#endif
  expect_right(3, "no-id");
}
TEST_F(FromMpi, RanksMeetAtTheInterfaceThatIsNamed) { expect_right(2, "interface"); }
TEST_F(FromMpi, ErrorsOfCommunicatorsAreThrownOnAllRanks) { expect_right(3, "other-options"); }

}  // namespace
}  // namespace tutti::test
