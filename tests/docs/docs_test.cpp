// What pages say about files, settings and errors is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "topology/load.hpp"
#include "topology/paths.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path source(const std::string& path) { return fs::path(TUTTI_SOURCE) / path; }

std::vector<fs::path> pages() {
  std::vector<fs::path> found = {source("README.md"), source("bench/README.md")};
  for (const auto& entry : fs::directory_iterator(source("docs"))) found.push_back(entry.path());
  return found;
}

/// What the first group of `pattern` matches.
Names matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  Names found;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), regex); at != std::sregex_iterator(); ++at)
    found.insert((*at)[1]);
  return found;
}

std::string without_code_blocks(const std::string& text) {
  return std::regex_replace(text, std::regex("```[^`]*```"), "");
}

/// The anchors that GitHub makes of headings.
Names anchors(const std::string& page) {
  Names found;
  for (const std::string& heading : matches(page, "(?:^|\n)#+ ([^\n]*)")) {
    std::string anchor;
    for (const char c : heading) {
      if (c == ' ') anchor += '-';
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    found.insert(anchor);
  }
  return found;
}

TEST(Pages, LinkToFilesAndHeadingsThatExist) {
  std::size_t links = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& link : matches(without_code_blocks(text_of(page)), R"(\]\(([^)]+)\))")) {
      if (link.starts_with("http")) continue;
      ++links;
      const std::string path = link.substr(0, link.find('#'));
      const fs::path target = path.empty() ? page : page.parent_path() / path;
      ASSERT_TRUE(fs::exists(target)) << page << " links to " << link;
      if (path.size() == link.size()) continue;
      EXPECT_TRUE(anchors(without_code_blocks(text_of(target))).contains(link.substr(path.size() + 1)))
          << page << " links to " << link;
    }
  }
  EXPECT_GT(links, 50U);
}

TEST(Pages, NameFilesThatExist) {
  for (const fs::path& page : pages())
    for (const std::string& path :
         matches(without_code_blocks(text_of(page)),
                 "`((?:src|include|tools|tests|bench|scripts|examples)/[\\w./-]+)`"))
      EXPECT_TRUE(fs::exists(source(path))) << page << " names " << path;
}

std::string text_of_tool(const std::string& tool) {
  std::string text = text_of(source("tools/command_line.hpp"));
  for (const auto& entry : fs::directory_iterator(source("tools/" + tool))) text += text_of(entry.path());
  return text;
}

TEST(Pages, NameOptionsThatToolsHave) {
  const std::regex command("tutti-(perf|doctor|topo|sim|tune|window)(?:-perf)?( [^`#|;\n]*)");
  std::size_t options = 0;
  for (const fs::path& page : pages()) {
    const std::string text = text_of(page);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), command); at != std::sregex_iterator();
         ++at) {
      const std::string tool = (*at)[1].str();
      for (const std::string& option : matches((*at)[2].str(), "(--[a-z][a-z-]*)")) {
        ++options;
        EXPECT_NE(text_of_tool(tool).find(option), std::string::npos) << page << ": " << tool << option;
      }
    }
  }
  EXPECT_GT(options, 20U);
}

TEST(Pages, AreAllInTheReadme) {
  const std::string readme = text_of(source("README.md"));
  for (const auto& entry : fs::directory_iterator(source("docs")))
    EXPECT_NE(readme.find("](docs/" + entry.path().filename().string() + ")"), std::string::npos)
        << entry.path();
}

TEST(Readme, ShowsTheExampleHello) {
  const std::string example = "```cpp\n" + text_of(source("examples/hello.cpp")) + "```\n";
  EXPECT_NE(text_of(source("README.md")).find(example), std::string::npos);
}

/// From a heading to the next one of its level.
std::string section(const std::string& page, const std::string& heading) {
  const std::size_t begin = page.find("\n## " + heading);
  EXPECT_NE(begin, std::string::npos) << heading;
  return begin == std::string::npos ? "" : page.substr(begin, page.find("\n## ", begin + 1) - begin);
}

/// What the page of measurements says of unchanged inputs: "all_reduce, 2, near" -> "2.35". Of fewer than
/// four sizes there is no mean.
std::map<std::string, std::string> measured_means() {
  const std::regex head(R"(\| (\d) ranks, (\w+), (near|far) \|.*)"),
      row(R"(\| (\w+) \|.* \| ([\d.]+)(?: of (\d))? \|)");
  std::istringstream lines(section(text_of(source("docs/performance.md")), "Shared memory, plain pointers"));
  std::map<std::string, std::string> means;
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, head))
      table = match[2].str() == "unchanged" ? ", " + match[1].str() + ", " + match[3].str() : "";
    else if (!table.empty() && std::regex_match(line, match, row) &&
             (!match[3].matched || match[3].str() >= "4"))
      means[match[1].str() + table] = match[2].str();
  }
  return means;
}

TEST(Readme, HasTheMeansOfThePageOfMeasurements) {
  const auto means = measured_means();
  const std::regex row(R"(\| (\w+) \| (\S+) / (\S+) \| (\S+) / (\S+) \| (\S+) / (\S+) \|)");
  std::istringstream lines(section(text_of(source("README.md")), "Measured"));
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    ++rows;
    std::size_t cell = 2;
    for (const char* ranks : {"2", "4", "8"})
      for (const char* place : {"near", "far"}) {
        const std::string what = cells[1].str() + ", " + ranks + ", " + place;
        const auto found = means.find(what);
        EXPECT_EQ(cells[cell++].str(), found == means.end() ? "-" : found->second) << what;
      }
  }
  EXPECT_EQ(rows, 5);
}

/// Sums of logarithms of ratios, the least and the most that these may be: the figures are rounded.
struct Ratios {
  double least = 0, most = 0;
  int count = 0;
  void add(const std::string& ours, const std::string& peers) {
    const auto half_a_digit = [](const std::string& figure) {
      const std::size_t point = figure.find('.');
      return 0.5 *
             std::pow(10, point == std::string::npos ? 0 : -static_cast<double>(figure.size() - point - 1));
    };
    const double us = std::stod(ours), theirs = std::stod(peers);
    least += std::log((theirs - half_a_digit(peers)) / (us + half_a_digit(ours)));
    most += std::log((theirs + half_a_digit(peers)) / (us - half_a_digit(ours)));
    ++count;
  }
};

TEST(Measurements, HaveTheMeansOfTheirCells) {
  const std::regex row(R"(\| (\w+) \|.* \| ([\d.]+)(?: of (\d))? \|)"),
      cell(R"(\| ([\d.]+)~? / ([\d.]+)~? )");
  int rows = 0;
  for (const fs::path& page : pages()) {
    if (!page.filename().string().starts_with("performance")) continue;
    std::istringstream lines(text_of(page));
    bool has_means = false;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("| ")) has_means = has_means && line.starts_with("|-");
      if (line.ends_with(" | mean |")) has_means = true;
      std::smatch match;
      if (!has_means || !std::regex_match(line, match, row)) continue;
      Ratios ratios;
      for (auto at = std::sregex_iterator(line.begin(), line.end(), cell); at != std::sregex_iterator(); ++at)
        ratios.add((*at)[1], (*at)[2]);
      ASSERT_GT(ratios.count, 0) << page << ": " << line;
      if (match[3].matched) {
        EXPECT_EQ(std::stoi(match[3]), ratios.count) << page << ": " << line;
      }
      constexpr double half_a_digit = 0.0051;
      const double told = std::stod(match[2]);
      EXPECT_GE(told, std::exp(ratios.least / ratios.count) - half_a_digit) << page << ": " << line;
      EXPECT_LE(told, std::exp(ratios.most / ratios.count) + half_a_digit) << page << ": " << line;
      ++rows;
    }
  }
  EXPECT_GT(rows, 150);
}

/// The floor of each folder of src in the picture, from the top; what has no name in front is on the floor
/// above.
std::map<std::string, int> floors() {
  std::istringstream page(text_of(source("docs/architecture.md")));
  const std::regex folder("src/(\\w+) ");
  std::map<std::string, int> found;
  int floor = 0;
  for (std::string line; std::getline(page, line) && !line.starts_with("Each floor");) {
    std::smatch match;
    floor += !line.empty() && line[0] != ' ' ? 1 : 0;
    if (std::regex_search(line, match, folder)) found[match[1]] = floor;
  }
  return found;
}

TEST(Architecture, EachFloorUsesOnlyThoseBelow) {
  const auto floor_of = floors();
  for (const auto& entry : fs::directory_iterator(source("src"))) {
    if (!entry.is_directory()) continue;  // what shared libraries export
    const std::string folder = entry.path().filename();
    ASSERT_TRUE(floor_of.contains(folder)) << folder << " is not in the picture";
    for (const auto& file : fs::recursive_directory_iterator(entry)) {
      if (!file.is_regular_file()) continue;
      for (const std::string& other : matches(text_of(file), "#include \"(\\w+)/"))
        if (floor_of.contains(other)) {
          EXPECT_LE(floor_of.at(folder), floor_of.at(other)) << file.path() << " includes " << other;
        }
    }
  }
}

TEST(Settings, AreAllOnTheirPageAndNoOthers) {
  Names read;
  for (const auto& entry : fs::recursive_directory_iterator(source("src")))
    if (entry.is_regular_file()) read.merge(matches(text_of(entry.path()), "\"(TUTTI_[A-Z_]+)\""));
  EXPECT_TRUE(read.contains("TUTTI_TIMEOUT") && read.contains("TUTTI_VERBS_MTU"));
  const std::string page = text_of(source("docs/settings.md"));
  const std::string variables = page.substr(0, page.find("## Options of the build"));
  EXPECT_EQ(matches(variables, "`(TUTTI_[A-Z_]+)`"), read);
}

TEST(Settings, OfLaunchersAreAllOnTheirPageAndNoOthers) {
  const std::string variable = "((?:MASTER|LOCAL|MPI|PMIX?|OMPI|SLURM|TORCHELASTIC)_[A-Z_]+|RANK|WORLD_SIZE)";
  Names read;
  for (const auto& entry : fs::recursive_directory_iterator(source("src/bootstrap")))
    read.merge(matches(text_of(entry.path()), '"' + variable + '"'));
  EXPECT_TRUE(read.contains("PMI_FD") && read.contains("RANK") && read.contains("SLURM_STEP_ID"));
  const std::string page = text_of(source("docs/settings.md"));
  EXPECT_EQ(matches(page.substr(0, page.find("## Environment variables")), '`' + variable + '`'), read);
}

TEST(Settings, OfTheBuildAreAllOnTheirPageAndNoOthers) {
  std::string lists = text_of(source("CMakeLists.txt"));
  for (const auto& entry : fs::directory_iterator(source("cmake"))) lists += text_of(entry.path());
  Names options = matches(lists, R"(option\((TUTTI_\w+))");
  options.merge(matches(lists, R"(set\((TUTTI_\w+)[^\n]* CACHE )"));
  EXPECT_TRUE(options.contains("TUTTI_CUDA") && options.contains("TUTTI_BUILD_TESTS"));
  const std::string page = text_of(source("docs/settings.md"));
  EXPECT_EQ(matches(page.substr(page.find("## Options of the build")), "`(TUTTI_[A-Z_]+)`"), options);
}

TEST(Topology, TheExampleOfItsPageIsAMachine) {
  const std::string page = text_of(source("docs/topology.md")), fence = "```json\n";
  const std::size_t begin = page.find(fence) + fence.size();
  const auto machine = topology::from_text(page.substr(begin, page.find("```", begin) - begin), "");
  EXPECT_EQ(machine.name, "small-box");
  const auto way = topology::path(machine, machine.find("gpu0"), machine.find("mlx5_0"));
  EXPECT_EQ(way.kind, topology::PathClass::host);
  EXPECT_EQ(way.bandwidth, 12.5);
}

TEST(Errors, AreAllOnTheirPageAndNoOthers) {
  Names codes;
  for (int code = 0; name(static_cast<ErrorCode>(code)) != "invalid"; ++code)
    codes.emplace(name(static_cast<ErrorCode>(code)));
  EXPECT_EQ(matches(text_of(source("docs/errors.md")), "\n\\| `(\\w+)` \\|"), codes);
}

}  // namespace
}  // namespace tutti
