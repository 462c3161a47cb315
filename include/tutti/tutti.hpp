/// \file
/// Everything but the optional headers (tutti/mpi.hpp).
#pragma once

#include <tutti/call.hpp>          // IWYU pragma: export
#include <tutti/communicator.hpp>  // IWYU pragma: export
#include <tutti/error.hpp>         // IWYU pragma: export
#include <tutti/gpu.hpp>           // IWYU pragma: export
#include <tutti/local.hpp>         // IWYU pragma: export
#include <tutti/operations.hpp>    // IWYU pragma: export
#include <tutti/options.hpp>       // IWYU pragma: export
#include <tutti/schedule.hpp>      // IWYU pragma: export
#include <tutti/stats.hpp>         // IWYU pragma: export
#include <tutti/types.hpp>         // IWYU pragma: export
#include <tutti/unique_id.hpp>     // IWYU pragma: export
#include <tutti/verify.hpp>        // IWYU pragma: export
#include <tutti/version.hpp>       // IWYU pragma: export
#include <tutti/window.hpp>        // IWYU pragma: export
