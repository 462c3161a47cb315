#include <tutti/version.hpp>

namespace tutti {

std::string_view version() noexcept { return header_version; }

}  // namespace tutti
