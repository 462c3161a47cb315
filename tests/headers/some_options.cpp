// Who sets some options, or some parts of a schedule, by their names is not warned of those that are left
// out.
#include <chrono>
#include <tutti/tutti.hpp>

namespace tutti {

Options patient() { return {.timeout = std::chrono::minutes(5)}; }
WindowOptions with_few_notifications() { return {.notifications = 8}; }
TransferOptions with_deadline() { return {.deadline = std::chrono::seconds(1)}; }
GpuOptions with_few_blocks() { return {.blocks = 4}; }
VerifyOptions as_in_place() { return {.in_place = true}; }
Schedule of_two_ranks() { return {.ranks = 2, .chunks = 1}; }
Step that_says_it_is_here() { return {.sinks = {message(1, 0, 0)}}; }

}  // namespace tutti
