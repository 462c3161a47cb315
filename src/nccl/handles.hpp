/// \file
/// The communicators that there are: a handle that is none of them is refused instead of followed.
#pragma once

#include <memory>

#include "nccl/comm.hpp"

namespace tutti::nccl {

/// Keeps `comm` until it is forgotten; returns its handle.
ncclComm_t keep(const std::shared_ptr<Comm>& comm);
void forget(ncclComm_t handle);
/// Throws Failure(ncclInvalidArgument) for nullptr and for a handle that was destroyed or never given out.
std::shared_ptr<Comm> comm_of(ncclComm_t handle);
/// `comm_of`, and ready for calls.
std::shared_ptr<Comm> ready(ncclComm_t handle);
/// `comm_of`, and made, though it may have failed since.
std::shared_ptr<Comm> once_made(ncclComm_t handle);

}  // namespace tutti::nccl
