#include "transport/shm/map_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "base/system_error.hpp"

namespace tutti::transport::shm {

namespace {

const char* remedy_of(int why) {
  switch (why) {
    case EAGAIN:
      return ", since this process locks what it maps (mlockall); raise the limit of locked memory "
             "(ulimit -l)";
    case ENOMEM:
      return " of addresses, of which hardly any take memory before they are used; raise the limit of "
             "address space (ulimit -v), or that of mappings of a process (sysctl vm.max_map_count)";
    default:
      return "";
  }
}

}  // namespace

void throw_unmapped(std::string_view what, std::size_t bytes, int why) {
  throw_errno(fmt::format("cannot map {}, {} KiB{}", what, bytes >> 10U, remedy_of(why)), why);
}

}  // namespace tutti::transport::shm
