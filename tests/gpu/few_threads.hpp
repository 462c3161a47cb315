/// \file
/// A system that starts no more threads.
#pragma once

namespace tutti::test {

/// While it lives, the system starts only so many more threads for this one, and refuses the others.
class FewThreads {
 public:
  explicit FewThreads(int left);
  ~FewThreads();
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;
};

}  // namespace tutti::test
