// Where tunings are looked for, and what becomes of those that cannot be used.
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tutti/tutti.hpp>

#include "base/read_file.hpp"
#include "own_folder.hpp"
#include "thrown.hpp"
#include "topology/discover.hpp"
#include "tuning/clear_costs.hpp"
#include "tuning/file.hpp"
#include "variable.hpp"

namespace tutti::tuning {
namespace {

using testing::HasSubstr;

class Files : public testing::Test {
 protected:
  std::string write(const std::string& name, const Tuning& tuning) {
    own_.write(name, to_json(tuning));
    return folder_ / name;
  }
  const test::OwnFolder own_;
  const std::filesystem::path& folder_ = own_.path();
};

// What a communicator of four ranks says of a call of 8 KiB.
std::string explained(const Options& options, const std::set<Rank>& with_options = {0, 1, 2, 3}) {
  std::string text;
  const UniqueId id = UniqueId::create("lo");
  std::vector<std::jthread> ranks;
  ranks.reserve(4);
  for (Rank r = 0; r < 4; ++r)
    ranks.emplace_back([&, r] {
      Options other;
      other.tuning = "off";
      Communicator comm(id, r, 4, with_options.contains(r) ? options : other);
      std::vector<float> in(1 << 11, 1), out(1 << 11);
      comm.all_reduce(std::span<const float>(in), std::span(out));
      EXPECT_EQ(out.back(), 4);
      if (r == 0)
        text = comm.explain({.operation = Operation::all_reduce,
                             .type = DataType::float32,
                             .in = in.data(),
                             .out = out.data(),
                             .count = in.size()});
    });
  ranks.clear();
  return text;
}

TEST_F(Files, CommunicatorsChooseByThem) {
  const Tuning tuning = of(slow_bytes);
  Options options;
  options.tuning = write("some.json", tuning);
  EXPECT_THAT(explained(options),
              HasSubstr("algorithm two_shot: the fastest by simulation with this machine's constants"));
  options.tuning = "off";
  EXPECT_THAT(explained(options),
              HasSubstr("algorithm all_pairs: the fastest by simulation with default constants"));
}

TEST_F(Files, AllRanksTakeWhatRankZeroHas) {
  Options options;
  options.tuning = write("some.json", of(slow_bytes));
  EXPECT_THAT(explained(options, {0}), HasSubstr("algorithm two_shot: the fastest by simulation"));
}

// More than the bootstrap takes of a rank at a time.
TEST_F(Files, MayBeLarge) {
  Curve long_one{"shm", 4000};
  for (std::size_t bytes = 1; bytes <= 6000; ++bytes) long_one.points.push_back({bytes, slow_messages});
  const Tuning tuning(7, {{"shm", 4, {{1024, slow_bytes}}}, std::move(long_one)});
  ASSERT_GT(to_json(tuning).size(), std::size_t{1} << 20U);
  Options options;
  options.tuning = write("large.json", tuning);
  EXPECT_THAT(explained(options, {0}),
              HasSubstr("algorithm two_shot: the fastest by simulation with this machine's constants"));
}

std::string why_not(const std::string& setting) {
  const auto error = test::thrown_by([&] { text_of(setting); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  return error.text;
}

TEST_F(Files, ThatAreNamedMustBeRight) {
  const std::string file = folder_ / "some.json";
  std::ofstream(file) << "{\"tutti_tuning\": 99}";
  EXPECT_THAT(why_not(file), AllOf(HasSubstr('"' + file + '"'), HasSubstr("TUTTI_TUNING=off")));
  EXPECT_THAT(why_not(folder_), HasSubstr('"' + folder_.string() + "\": cannot be read"));
  EXPECT_THAT(why_not("/dev/zero"), HasSubstr("holds more than 16 MiB"));
}

TEST_F(Files, AreNotWaitedForWithoutEnd) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto error =
      test::thrown_by([&] { read_file("tuning", fifo, "; a remedy", std::chrono::milliseconds(20)); });
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_THAT(error.text, AllOf(HasSubstr("fifo\": nothing came from it"), HasSubstr("; a remedy")));
  const std::jthread writer([&] {
    std::ofstream late(fifo);
    for (const char* part : {"what ", "comes ", "late"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      late << part << std::flush;
    }
  });
  EXPECT_EQ(read_file("tuning", fifo), "what comes late");
}

// What two ranks say of a barrier, with the constants they found.
std::string predicted() {
  std::string text;
  const UniqueId id = UniqueId::create("lo");
  std::vector<std::jthread> ranks;
  ranks.reserve(2);
  for (Rank r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      Communicator comm(id, r, 2, Options{});
      const std::string mine = comm.predict({.operation = Operation::barrier});
      if (r == 1) text = mine;
    });
  ranks.clear();
  return text;
}

TEST_F(Files, ThatWereFoundAndCannotBeUsedEndNoProgram) {
  const test::Variable cache("XDG_CACHE_HOME", folder_.c_str());
  const std::string file = file_of(topology::hash_of_parts(topology::discover()));
  std::filesystem::create_directories(folder_ / "tutti" / "tuning");
  for (const char* damage : {"{\"tutti_tuning\": 99}", "\xff\xfe{", "", "[7"}) {
    std::ofstream(file) << damage;
    const auto tuning = from_json(text_of(""));
    EXPECT_TRUE(tuning->curves().empty());
    EXPECT_THAT(tuning->refused(), AllOf(HasSubstr(file), HasSubstr("run tutti-tune again"))) << damage;
  }
  EXPECT_THAT(predicted(), HasSubstr("shm: defaults, as what was measured here cannot be used (tutti: "
                                     "invalid_argument: tuning \"" +
                                     file));
}

TEST_F(Files, OfAMachineThatCannotBeLookedAtEndNoProgram) {
#if TUTTI_HAVE_HWLOC
  const test::Variable cache("XDG_CACHE_HOME", folder_.c_str());
  write("tutti/tuning/some.json", of(slow_bytes));
  // A link as fast as none is.
  const std::string seen = folder_ / "machine.xml";
  std::ofstream(seen) << R"(<?xml version="1.0" encoding="UTF-8"?>
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1"
          complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
            complete_nodeset="0x1" gp_index="2" local_memory="1073741824"/>
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
            gp_index="3"/>
    <object type="Bridge" gp_index="4" bridge_type="0-1" depth="0" bridge_pci="0000:[00-02]">
      <object type="PCIDev" gp_index="5" pci_busid="0000:01:00.0"
              pci_type="0200 [8086:1572] [8086:0000] 01" pci_link_speed="1000000.000000"/>
    </object>
  </object>
</topology>
)";
  const test::Variable machine("HWLOC_XMLFILE", seen.c_str());
  EXPECT_THROW(topology::discover(), Error);
  EXPECT_THAT(from_json(text_of(""))->refused(), HasSubstr("pci_link_speed"));
#else
  GTEST_SKIP() << "this build is without hwloc";
#endif
}

TEST_F(Files, ThatAreNamedMustBeThere) {
  Options options;
  for (const auto& file : {folder_ / "nowhere.json", folder_}) {
    options.tuning = file;
    EXPECT_THROW(Communicator(UniqueId::create("lo"), 0, 1, options), Error) << file;
  }
}

TEST_F(Files, OfThisMachineAreFoundByItsHash) {
  const test::Variable cache("XDG_CACHE_HOME", folder_.c_str());
  EXPECT_EQ(text_of(""), "");
  const std::uint64_t machine = topology::hash_of_parts(topology::discover());
  EXPECT_EQ(std::filesystem::path(file_of(machine)).parent_path(), folder_ / "tutti" / "tuning");
  const Tuning tuning = of(slow_bytes);
  std::filesystem::create_directories(folder_ / "tutti" / "tuning");
  std::ofstream(file_of(machine ^ 1U)) << to_json(tuning);
  EXPECT_EQ(text_of(""), "") << "of another machine";
  std::ofstream(file_of(machine)) << to_json(tuning);
  EXPECT_EQ(text_of(""), to_json(tuning));
  EXPECT_EQ(text_of("off"), "");
}

}  // namespace
}  // namespace tutti::tuning
