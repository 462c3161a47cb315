/// \file
/// System calls that this process is refused, as the seccomp profile of a container refuses them.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace tutti {

/// From now on, for good, calls of that number whose second argument has one of the bits of `flags` fail with
/// `error` in this thread, and in those that it starts.
inline void refuse_calls(std::uint32_t number, std::uint16_t error, std::uint32_t flags = ~0U) {
  constexpr std::uint16_t load = BPF_LD | BPF_W | BPF_ABS, answer = BPF_RET | BPF_K;
  constexpr std::uint32_t second = offsetof(seccomp_data, args) + sizeof(std::uint64_t);  // its lower half
  sock_filter all[] = {
      {load, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, number},
      {load, 0, 0, second},
      {BPF_JMP | BPF_JSET | BPF_K, 0, 1, flags},
      {answer, 0, 0, SECCOMP_RET_ERRNO | error},
      {answer, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{sizeof all / sizeof all[0], all};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::system_error(errno, std::generic_category(), "seccomp");
}

}  // namespace tutti
