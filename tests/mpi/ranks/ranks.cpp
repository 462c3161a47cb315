// Ranks of MPI that check what tutti/mpi.hpp promises: `mpi-ranks WHAT`.
#include <mpi.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tutti/mpi.hpp>
#include <tutti/tutti.hpp>

namespace {

int mistakes = 0;
void expect(bool right, const std::string& what) {
  if (right) return;
  ++mistakes;
  std::printf("wrong: %s\n", what.c_str());
}

int world_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

// Odd and even ranks apart, the last one first.
MPI_Comm backwards() {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, -world_rank(), &part);
  return part;
}

void expect_same_ranks(tutti::Communicator& comm, MPI_Comm mpi) {
  int rank = -1, size = -1;
  MPI_Comm_rank(mpi, &rank);
  MPI_Comm_size(mpi, &size);
  expect(comm.rank() == rank && comm.size() == size, "rank or size");
  const int mine[] = {world_rank(), 1 << world_rank()};
  std::vector<int> theirs(2 * static_cast<std::size_t>(size)), ours(theirs.size());
  MPI_Allgather(mine, 2, MPI_INT, theirs.data(), 2, MPI_INT, mpi);
  comm.all_gather(mine, ours);
  expect(ours == theirs, "all_gather");
  int their_sum[2] = {}, our_sum[2] = {};
  MPI_Allreduce(mine, their_sum, 2, MPI_INT, MPI_SUM, mpi);
  comm.all_reduce(mine, our_sum);
  expect(our_sum[0] == their_sum[0] && our_sum[1] == their_sum[1], "all_reduce");
  int theirs_of_last = mine[0], ours_of_last[] = {mine[0]};
  MPI_Bcast(&theirs_of_last, 1, MPI_INT, size - 1, mpi);
  comm.broadcast(ours_of_last, size - 1);
  expect(ours_of_last[0] == theirs_of_last, "broadcast");
}

void ranks() {
  MPI_Comm part = backwards();
  auto comm = tutti::from_mpi(part), whole = tutti::from_mpi(MPI_COMM_WORLD);
  expect(comm.size() == (world_rank() % 2 == 0 ? 3 : 2), "the size of the part");
  expect((world_rank() == 4 || world_rank() == 3) == (comm.rank() == 0), "the last rank comes first");
  for (int i = 0; i < 2; ++i) {
    expect_same_ranks(comm, part);
    expect_same_ranks(whole, MPI_COMM_WORLD);
  }
  MPI_Comm_free(&part);
  comm.barrier();
}

void alone() {
  auto comm = tutti::from_mpi(MPI_COMM_SELF);
  expect_same_ranks(comm, MPI_COMM_SELF);
}

std::optional<tutti::Communicator> beyond_mpi;
void finalized() {
  beyond_mpi = tutti::from_mpi(MPI_COMM_WORLD);
  MPI_Finalize();
  const int mine[] = {beyond_mpi->rank() + 1};
  int sum[1] = {};
  beyond_mpi->all_reduce(mine, sum);
  expect(sum[0] == beyond_mpi->size() * (beyond_mpi->size() + 1) / 2, "all_reduce after MPI_Finalize");
  beyond_mpi.reset();
}

void expect_error(const std::function<void()>& call, tutti::ErrorCode code,
                  const std::vector<tutti::Rank>& at_fault, const std::string& part) {
  try {
    call();
    expect(false, "nothing was thrown");
  } catch (const tutti::Error& error) {
    expect(error.code() == code && error.ranks() == at_fault &&
               std::string(error.what()).find(part) != std::string::npos,
           error.what());
  }
}

void not_running() {
  int given = 0;
  MPI_Initialized(&given);
  expect(given == 0, "MPI is initialized already");
  const auto make = [] { (void)tutti::from_mpi(MPI_COMM_WORLD); };
  expect_error(make, tutti::ErrorCode::invalid_argument, {}, "MPI is not initialized");
  MPI_Init(nullptr, nullptr);
  make();
  MPI_Finalize();
  expect_error(make, tutti::ErrorCode::invalid_argument, {}, "MPI is finalized");
}

void mpi_error() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  expect_error([] { (void)tutti::from_mpi(MPI_COMM_NULL); }, tutti::ErrorCode::system, {},
               "MPI returned error " + std::to_string(MPI_ERR_COMM));
  auto comm = tutti::from_mpi(MPI_COMM_WORLD);  // no harm was done
  expect_same_ranks(comm, MPI_COMM_WORLD);
}

// Even ranks on one side, odd ones on the other.
void intercommunicator() {
  MPI_Comm side = MPI_COMM_NULL, both = MPI_COMM_NULL, merged = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, 0, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, 1 - world_rank() % 2, 0, &both);
  expect_error([&] { (void)tutti::from_mpi(both); }, tutti::ErrorCode::invalid_argument, {},
               "MPI_Intercomm_merge");
  MPI_Intercomm_merge(both, world_rank() % 2, &merged);
  auto comm = tutti::from_mpi(merged);
  expect_same_ranks(comm, merged);
  for (MPI_Comm* const one : {&merged, &both, &side}) MPI_Comm_free(one);
}

// Rank 0 has no descriptor left, for the socket at which the others would meet.
void no_id() {
  MPI_Barrier(MPI_COMM_WORLD);  // MPI has opened what it needs
  rlimit usual{};
  getrlimit(RLIMIT_NOFILE, &usual);
  if (world_rank() == 0) {
    const rlimit none{3, usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    expect_error([] { (void)tutti::from_mpi(MPI_COMM_WORLD); }, tutti::ErrorCode::system, {},
                 "Too many open files");
    setrlimit(RLIMIT_NOFILE, &usual);
  } else {
    expect_error([] { (void)tutti::from_mpi(MPI_COMM_WORLD); }, tutti::ErrorCode::aborted, {0},
                 "rank 0 could not make the unique id");
  }
  auto comm = tutti::from_mpi(MPI_COMM_WORLD);  // all are at the same place
  expect_same_ranks(comm, MPI_COMM_WORLD);
}

void other_options() {
  tutti::Options options = tutti::Options::from_environment();
  if (world_rank() == 1) options.rank_order = !options.rank_order;
  expect_error([&] { (void)tutti::from_mpi(MPI_COMM_WORLD, options); }, tutti::ErrorCode::mismatch, {0, 1},
               "all ranks must have the same");
}

// Where the id listens the variable counts also beside Options of the program's own.
void named_interface() {
  setenv("TUTTI_INTERFACE", "nosuch0", 1);
  const auto make = [] { (void)tutti::from_mpi(MPI_COMM_WORLD, tutti::Options{}); };
  if (world_rank() == 0)
    expect_error(make, tutti::ErrorCode::invalid_argument, {}, "nosuch0");
  else
    expect_error(make, tutti::ErrorCode::aborted, {0}, "rank 0 could not make the unique id");
  tutti::Options options;
  options.interface = "lo";
  auto comm = tutti::from_mpi(MPI_COMM_WORLD, options);
  expect_same_ranks(comm, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> all{{"ranks", ranks},
                                              {"alone", alone},
                                              {"finalized", finalized},
                                              {"mpi-error", mpi_error},
                                              {"intercommunicator", intercommunicator},
                                              {"no-id", no_id},
                                              {"interface", named_interface},
                                              {"other-options", other_options},
                                              {"not-running", not_running}};
  const auto chosen = all.find(argc == 2 ? argv[1] : "");
  if (chosen == all.end()) return 2;
  if (chosen->second != not_running) MPI_Init(&argc, &argv);
  try {
    chosen->second();
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  if (mistakes == 0) std::printf("%s as promised\n", chosen->first.c_str());
  std::fflush(stdout);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
  return mistakes == 0 ? 0 : 1;
}
