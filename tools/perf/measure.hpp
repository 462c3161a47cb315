/// \file
/// How long a call takes.
#pragma once

#include <functional>
#include <vector>

#include <tutti/communicator.hpp>

namespace tutti::perf {

/// Microseconds a call. A batch is some calls in a row; its time is the mean over its calls, and then the
/// largest of all ranks.
struct Timing {
  double median = 0, p10 = 0, p90 = 0;  ///< over the batches
  int iterations = 0;                   ///< calls in a batch
  int batches = 0;
};

struct Method {
  int iterations = 0;  ///< calls in a batch; 0: as many as take about 5 ms
  int batches = 5;
  int warmups = 21;  ///< in which the library tries its ways of long calls
};

/// Calls `call` over and over. Collective; equal on all ranks. With `prepare`, every call is timed alone:
/// prepare, a barrier, and then the call. Otherwise calls follow each other without a pause, as in
/// nccl-tests.
Timing measure(Communicator& comm, const Method& method, const std::function<void()>& call,
               const std::function<void()>& prepare = nullptr);

/// The value below which the fraction `q` of `sorted` lies, interpolated between neighbours. Not empty.
double quantile(const std::vector<double>& sorted, double q);

}  // namespace tutti::perf
