/// \file
/// Communicators over the ranks of an MPI communicator. Header only: tutti itself is not linked with MPI.
#pragma once

#include <mpi.h>

#include <cstdlib>
#include <exception>
#include <string>

#include <tutti/communicator.hpp>

namespace tutti {

/// A communicator with the ranks of `mpi`, in the same order. Collective over `mpi`; call it on a thread that
/// may call MPI. MPI is used to hand out the unique id and not afterwards, so it may be finalized before the
/// communicator is destroyed. Ranks meet at rank 0's Options::interface, or TUTTI_INTERFACE. If neither is
/// set, they meet at its loopback if all are on one host, else at the interface of its default route. Throws
/// as Communicator does; Error(invalid_argument) before MPI_Init, after MPI_Finalize and for an
/// intercommunicator, Error(system) when MPI reports an error (its default is to end the program),
/// Error(aborted) when rank 0 cannot make the id.
inline Communicator from_mpi(MPI_Comm mpi, const Options& options = Options::from_environment()) {
  const auto check = [](int code) {
    if (code != MPI_SUCCESS) throw Error(ErrorCode::system, "MPI returned error " + std::to_string(code));
  };
  int begun = 0, over = 0;
  check(MPI_Initialized(&begun));
  check(MPI_Finalized(&over));
  if (begun == 0 || over != 0)
    throw Error(ErrorCode::invalid_argument,
                std::string("from_mpi: MPI is ") + (over != 0 ? "finalized" : "not initialized"));
  int between_groups = 0;
  check(MPI_Comm_test_inter(mpi, &between_groups));
  if (between_groups != 0)
    throw Error(
        ErrorCode::invalid_argument,
        "from_mpi: an intercommunicator has two groups of ranks; MPI_Intercomm_merge makes one of them");
  int rank = 0, size = 1, local_size = 1;
  check(MPI_Comm_rank(mpi, &rank));
  check(MPI_Comm_size(mpi, &size));
  MPI_Comm local = MPI_COMM_NULL;
  check(MPI_Comm_split_type(mpi, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
  check(MPI_Comm_size(local, &local_size));
  check(MPI_Comm_free(&local));
  UniqueId id;
  const char* const variable = std::getenv("TUTTI_INTERFACE");
  const bool named = !options.interface.empty() || (variable != nullptr && *variable != '\0');
  std::exception_ptr failure;
  try {
    if (rank == 0 && size > 1)
      id = UniqueId::create(named ? options.interface : local_size == size ? "lo" : "default");
  } catch (...) {
    failure = std::current_exception();  // the others wait for the id
  }
  int made = failure ? 0 : 1;
  check(MPI_Bcast(&made, 1, MPI_INT, 0, mpi));
  if (failure) std::rethrow_exception(failure);
  if (made == 0)
    throw Error(ErrorCode::aborted, "rank 0 could not make the unique id; its own error says why", {0});
  check(MPI_Bcast(id.bytes.data(), static_cast<int>(UniqueId::size), MPI_BYTE, 0, mpi));
  return Communicator(id, rank, size, options);
}

}  // namespace tutti
