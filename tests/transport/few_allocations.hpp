/// \file
/// Memory that ends.
#pragma once

namespace tutti::transport::testing {

/// While it lives, this thread is given memory only so many times more; then there is std::bad_alloc.
/// Sanitizers know no such end.
class FewAllocations {
 public:
  explicit FewAllocations(int left);
  ~FewAllocations();
  FewAllocations(const FewAllocations&) = delete;
  FewAllocations& operator=(const FewAllocations&) = delete;
};

}  // namespace tutti::transport::testing
