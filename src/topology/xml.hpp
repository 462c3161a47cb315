/// \file
/// XML from strangers as a tree of elements, with lines for error messages. No entities but XML's own, and
/// nothing is loaded.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::topology {

struct XmlElement {
  std::string name{};
  std::size_t line = 0;
  std::vector<std::pair<std::string, std::string>> attributes{};
  std::vector<XmlElement> children{};
  std::string content{};  ///< the text in it, of all parts

  /// nullptr: there is none.
  [[nodiscard]] const std::string* attribute(std::string_view key) const;
  /// The attribute; empty where there is none.
  [[nodiscard]] std::string text(std::string_view key) const;
  /// A decimal number from `least` to `most`, or `otherwise` where there is no such attribute. Throws
  /// Error(invalid_argument) with the line for anything else.
  long long number(std::string_view key, long long otherwise, long long least, long long most) const;
  /// Throws Error(invalid_argument): "line 12, <gpu>: WHY".
  [[noreturn]] void refuse(const std::string& why) const;
};

/// The root element. Throws Error(invalid_argument) with the line for what is not well-formed, nests deeper
/// than `most_xml_depth`, has more than `most_xml_elements` or values longer than `most_xml_value`, or brings
/// a document type of its own.
XmlElement parse_xml(std::string_view text);

inline constexpr int most_xml_depth = 64;
inline constexpr int most_xml_elements = 100'000;
/// Bytes of an attribute: what a processor is called, thousands of NUMA domains are told.
inline constexpr std::size_t most_xml_value = std::size_t{1} << 14U;
inline constexpr int most_xml_number = 1'000'000'000;  ///< for numbers that have no bound of their own

}  // namespace tutti::topology
