#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <string>

#include "../../tools/numbers.hpp"
#include "../../tools/standard_descriptors.hpp"

namespace bench {

namespace {

void add_options(CLI::App& app, Options& options) {
  app.add_option("--library", options.library, "Name in the output")->capture_default_str();
  app.add_option("--variant", options.variant, "Name of the settings in the output")->capture_default_str();
  app.add_option("--points", options.points, "What to measure: operation:bytes,...")
      ->delimiter(',')
      ->required();
  app.add_option("--modes", options.modes, "Inputs between calls")
      ->delimiter(',')
      ->check(CLI::IsMember({"unchanged", "rewritten"}))
      ->capture_default_str();
  const std::map<std::string, Pages> pages{
      {"small", Pages::small}, {"huge", Pages::huge}, {"unadvised", Pages::unadvised}};
  app.add_option("--pages", options.kind.pages,
                 "What buffers consist of: 4 KiB, 2 MiB or what the system gives")
      ->transform(CLI::CheckedTransformer(pages))
      ->capture_default_str();
  app.add_option("--begin", options.kind.begin,
                 "Bytes behind a page's begin where buffers begin, a multiple of 4; 16 is what malloc gives")
      ->check(CLI::Range(0, 4092))
      ->check(CLI::Validator(
          [](std::string& text) {
            return std::strtoul(text.c_str(), nullptr, 0) % 4 == 0 ? std::string() : "no multiple of 4";
          },
          ""))
      ->capture_default_str();
  app.add_flag(
      "--first", options.first,
      "Instead: the first call of each point, and medians of the next five and of five with swept caches");
  app.add_option("--cores", options.cores, "Bind rank r to the core whose turn it is")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", options.seconds, "Time measured a point")
      ->check(tutti::seconds_between("0.000001", "3600"))
      ->capture_default_str();
}

}  // namespace

CommandLine::CommandLine(const char* about, Options& options) : app_(std::make_unique<CLI::App>(about)) {
  add_options(*app_, options);
}

CommandLine::~CommandLine() = default;

void CommandLine::add_flag(const char* name, bool& value, const char* help) {
  app_->add_flag(name, value, help);
}

void CommandLine::add(const char* name, std::string& value, const char* help,
                      const std::vector<std::string>& choices) {
  CLI::Option* const option = app_->add_option(name, value, help)->capture_default_str();
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}

void CommandLine::require(const char* name, std::string& value, const char* help) {
  app_->add_option(name, value, help)->required();
}

void CommandLine::require(const char* name, int& value, const char* help) {
  app_->add_option(name, value, help)->required();
}

std::optional<int> CommandLine::parse(int argc, char** argv) try {
  tutti::keep_standard_descriptors();
  tutti::take_no_octal_numbers(*app_);
  app_->parse(argc, argv);
  return std::nullopt;
} catch (const CLI::ParseError& error) {
  return app_->exit(error);
}

}  // namespace bench
