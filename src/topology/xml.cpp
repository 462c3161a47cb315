#include "topology/xml.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>

#include <tutti/error.hpp>

namespace tutti::topology {

namespace {

[[noreturn]] void refuse_at(std::size_t line, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("topology in XML, line {}: {}", line, why));
}

std::size_t line_of(XML_Parser parser) {
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9  // which deprecates the other one
  return XML_GetCurrentLineNumber64(parser);
#else
  return XML_GetCurrentLineNumber(parser);
#endif
}

/// What expat's callbacks share. They must not throw through C: they note the reason and stop the parser.
struct Reading {
  XML_Parser parser = nullptr;
  XmlElement root{};                ///< holds the real root as its child
  std::vector<XmlElement*> open{};  ///< the elements whose end is awaited, outermost first
  int elements = 0;
  std::string refusal{};

  void stop(std::string why) {
    refusal = std::move(why);
    XML_StopParser(parser, XML_FALSE);
  }
};

void on_start(void* data, const XML_Char* name, const XML_Char** attributes) {
  auto& reading = *static_cast<Reading*>(data);
  if (++reading.elements > most_xml_elements)
    return reading.stop(fmt::format("more than {} elements", most_xml_elements));
  if (reading.open.size() > static_cast<std::size_t>(most_xml_depth))
    return reading.stop(fmt::format("elements nest deeper than {}", most_xml_depth));
  // Siblings that come later may move the closed ones, never those that are open: only the last child is.
  auto& siblings = reading.open.back()->children;
  siblings.push_back({.name = name, .line = line_of(reading.parser)});
  for (; *attributes != nullptr; attributes += 2) {
    if (std::string_view(attributes[1]).size() > most_xml_value)
      return reading.stop(fmt::format("a value of more than {} bytes", most_xml_value));
    siblings.back().attributes.emplace_back(attributes[0], attributes[1]);
  }
  reading.open.push_back(&siblings.back());
}

void on_end(void* data, const XML_Char* /*name*/) { static_cast<Reading*>(data)->open.pop_back(); }

void on_text(void* data, const XML_Char* text, int length) {
  static_cast<Reading*>(data)->open.back()->content.append(text, static_cast<std::size_t>(length));
}

/// hwloc's files name a document type elsewhere, which is not read. One inside the file could define
/// entities.
void on_doctype(void* data, const XML_Char* /*name*/, const XML_Char* /*system*/, const XML_Char* /*id*/,
                int has_internal_subset) {
  if (has_internal_subset != 0)
    static_cast<Reading*>(data)->stop("brings a document type of its own, which no topology file needs");
}

}  // namespace

XmlElement parse_xml(std::string_view text) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(XML_ParserCreate(nullptr),
                                                                            &XML_ParserFree);
  Reading reading{.parser = parser.get()};
  reading.open.push_back(&reading.root);
  XML_SetUserData(parser.get(), &reading);
  XML_SetElementHandler(parser.get(), on_start, on_end);
  XML_SetCharacterDataHandler(parser.get(), on_text);
  XML_SetStartDoctypeDeclHandler(parser.get(), on_doctype);
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) refuse_at(1, "too large");
  const auto status = XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
  if (!reading.refusal.empty()) refuse_at(line_of(parser.get()), reading.refusal);
  if (status != XML_STATUS_OK)
    refuse_at(line_of(parser.get()), XML_ErrorString(XML_GetErrorCode(parser.get())));
  return std::move(reading.root.children.front());
}

const std::string* XmlElement::attribute(std::string_view key) const {
  const auto at = std::ranges::find(attributes, key, &std::pair<std::string, std::string>::first);
  return at == attributes.end() ? nullptr : &at->second;
}

std::string XmlElement::text(std::string_view key) const {
  const std::string* found = attribute(key);
  return found != nullptr ? *found : "";
}

long long XmlElement::number(std::string_view key, long long otherwise, long long least,
                             long long most) const {
  const std::string* found = attribute(key);
  if (found == nullptr) return otherwise;
  long long value = 0;
  const char* end = found->data() + found->size();
  const auto [stopped, error] = std::from_chars(found->data(), end, value);
  if (error != std::errc() || stopped != end || value < least || value > most)
    refuse(fmt::format("{}=\"{}\" is no number from {} to {}", key, *found, least, most));
  return value;
}

void XmlElement::refuse(const std::string& why) const { refuse_at(line, fmt::format("<{}>: {}", name, why)); }

}  // namespace tutti::topology
