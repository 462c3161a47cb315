/// \file
/// Text as XML writes it.
#pragma once

#include <string>
#include <string_view>

namespace tutti::topology {

/// Fit for an attribute or the content of an element. Control characters are left out: XML cannot write them.
/// What is no UTF-8, or no character of XML's, becomes U+FFFD, byte by byte.
std::string escaped_xml(std::string_view text);

}  // namespace tutti::topology
