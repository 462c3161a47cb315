/// \file
/// A failure of some rank while all make something, told to all: nobody waits for who has given up.
#pragma once

#include <exception>
#include <string>

#include <tutti/error.hpp>

#include "bootstrap/frame.hpp"
#include "transport/transport.hpp"

namespace tutti::transport {

/// What does not work on some ranks is thrown on all, as one error that names them: its code is that of the
/// first. `mine`: empty when all is well here. Collective.
void fail_together(const Group& group, ErrorCode code, const std::string& mine);

/// This rank's part of what all do; what it throws on some ranks is thrown on all. Collective.
template <class Part>
void do_together(const Group& group, Part part) {
  bootstrap::Fault fault;
  try {
    part();
  } catch (const Error& error) {
    fault = bootstrap::to_fault(error);
  } catch (const std::exception& error) {
    fault = {ErrorCode::system,
             {},
             std::string("it is out of memory, as a rule: ") + error.what() + "; free some on its host"};
  }
  fail_together(group, fault.code, fault.text);
}

}  // namespace tutti::transport
