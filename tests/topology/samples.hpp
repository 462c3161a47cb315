/// \file
/// Small topology files of our own, in the forms that others write.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thrown.hpp"
#include "topology/builtin.hpp"
#include "topology/load.hpp"

namespace tutti::topology::testing {

/// Two sockets; below a switch of the first a GPU and an adapter of two ports, on the second a GPU and a port
/// without PCI device; the GPUs are joined by four NVLinks, and three each lead to switches.
inline const char* const complete = R"(<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:05:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:07:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1">
          <nvlink target="0000:87:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:c1:00.0" count="2" tclass="0x068000"/>
          <nvlink target="0000:c2:00.0" count="1" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:08:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="8">
        <nic>
          <net name="mlx5_1" dev="1" speed="200000" port="2" latency="0.0" guid="0x11" maxconn="1" gdr="1"/>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.0" guid="0x11" maxconn="1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:87:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="0" sm="90" rank="0" gdr="0">
        <nvlink target="0000:07:00.0" count="4" tclass="0x030200"/>
        <nvlink target="0000:c1:00.0" count="3" tclass="0x068000"/>
      </gpu>
    </pci>
    <nic>
      <net name="eth0" dev="2" speed="-1" port="0" guid="0x0" gdr="0"/>
    </nic>
  </cpu>
</system>
)";

/// GPUs and adapters by their class only, as hypervisors' files have them; a bridge that leads nowhere.
inline const char* const skeleton = R"(<system version="1">
  <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0102:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020000" vendor="0x15b3" link_speed="16 GT/s" link_width="16"/>
    </pci>
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16 GT/s" link_width="16"/>
    <pci busid="0003:00:00.0" class="0x068000" link_speed="16 GT/s" link_width="16"/>
  </cpu>
</system>
)";

/// RCCL's dialect: two GPUs joined by xGMI.
inline const char* const amd = R"(<system version="2">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0000:0c:00.0" class="0x120000" vendor="0x1002" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="304" gcn="gfx942" arch="38911" rank="0" gdr="1">
        <xgmi target="0000:15:00.0" count="1" tclass="0x120000"/>
      </gpu>
    </pci>
    <pci busid="0000:15:00.0" class="0x120000" vendor="0x1002" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="304" gcn="gfx942" arch="38911" rank="1" gdr="1">
        <xgmi target="0000:0c:00.0" count="1" tclass="0x120000"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

/// hwloc: two packages; on the first a switch (root port, upstream port, downstream ports) with two GPUs and
/// an adapter of two functions; NVLinks between the GPUs and to a switch; the board's own display; an
/// interface.
inline const char* const lstopo = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x000000ff" nodeset="0x00000003" gp_index="1">
    <info name="Architecture" value="x86_64"/>
    <object type="Package" os_index="0" cpuset="0x0000000f" nodeset="0x00000001" gp_index="2">
      <info name="CPUVendor" value="GenuineIntel"/>
      <info name="CPUFamilyNumber" value="6"/>
      <info name="CPUModelNumber" value="85"/>
      <object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001" gp_index="3"/>
      <object type="Bridge" gp_index="4" bridge_type="0-1" depth="0" bridge_pci="0000:[00-0f]">
        <object type="Bridge" gp_index="5" bridge_type="1-1" depth="1" pci_busid="0000:00:01.0" pci_type="0604 [8086:2030] [0000:0000] 04" pci_link_speed="15.753846">
          <object type="Bridge" gp_index="6" bridge_type="1-1" depth="2" pci_busid="0000:02:00.0" pci_type="0604 [10b5:9781] [10b5:9781] b0" pci_link_speed="15.753846">
            <object type="Bridge" gp_index="7" bridge_type="1-1" depth="3" pci_busid="0000:03:00.0" pci_type="0604 [10b5:9781] [10b5:9781] b0" pci_link_speed="15.753846">
              <object type="PCIDev" gp_index="8" pci_busid="0000:04:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1" pci_link_speed="15.753846">
                <object type="OSDev" gp_index="9" name="cuda1" subtype="CUDA" osdev_type="5">
                  <info name="GPUModel" value="Tesla V100"/>
                </object>
              </object>
            </object>
            <object type="Bridge" gp_index="10" bridge_type="1-1" depth="3" pci_busid="0000:03:01.0" pci_type="0604 [10b5:9781] [10b5:9781] b0" pci_link_speed="15.753846">
              <object type="PCIDev" gp_index="11" pci_busid="0000:05:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1" pci_link_speed="15.753846">
                <object type="OSDev" gp_index="12" name="cuda0" subtype="CUDA" osdev_type="5"/>
              </object>
            </object>
            <object type="Bridge" gp_index="13" bridge_type="1-1" depth="3" pci_busid="0000:03:02.0" pci_type="0604 [10b5:9781] [10b5:9781] b0" pci_link_speed="7.876923">
              <object type="PCIDev" gp_index="14" pci_busid="0000:06:00.0" pci_type="0207 [15b3:1017] [15b3:0003] 00" pci_link_speed="7.876923">
                <object type="OSDev" gp_index="15" name="ib0" osdev_type="2"/>
                <object type="OSDev" gp_index="16" name="mlx5_0" osdev_type="3">
                  <info name="Port1State" value="4"/>
                </object>
              </object>
              <object type="PCIDev" gp_index="17" pci_busid="0000:06:00.1" pci_type="0207 [15b3:1017] [15b3:0003] 00" pci_link_speed="7.876923">
                <object type="OSDev" gp_index="18" name="mlx5_1" osdev_type="3"/>
              </object>
            </object>
          </object>
        </object>
        <object type="PCIDev" gp_index="19" pci_busid="0000:0b:00.0" pci_type="0300 [1a03:2000] [1458:1000] 30" pci_link_speed="0.000000"/>
        <object type="PCIDev" gp_index="20" pci_busid="0000:0c:00.0" pci_type="0680 [10de:1ac2] [10de:1796] a1" pci_link_speed="0.000000"/>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x000000f0" nodeset="0x00000002" gp_index="21">
      <object type="NUMANode" os_index="1" cpuset="0x000000f0" nodeset="0x00000002" gp_index="22"/>
    </object>
    <object type="Bridge" gp_index="23" bridge_type="0-1" depth="0" bridge_pci="0000:[80-8f]">
      <object type="PCIDev" gp_index="24" pci_busid="0000:80:02.0" pci_type="0200 [8086:1521] [1458:0000] 01" pci_link_speed="2.000000">
        <object type="OSDev" gp_index="25" name="eth0" osdev_type="2"/>
      </object>
    </object>
  </object>
  <distances2hetero nbobjs="3" kind="25" name="NVLinkBandwidth">
    <indexes length="30">OSDev:9 OSDev:12 PCIDev:20 </indexes>
    <u64values length="40">0 50000 25000 50000 0 25000 </u64values>
    <u64values length="20">25000 25000 0 </u64values>
  </distances2hetero>
</topology>
)";

/// Tests of XML, where this build reads it.
class Xml : public ::testing::Test {
 protected:
  void SetUp() override {
#if !TUTTI_HAVE_EXPAT
    GTEST_SKIP() << "this build reads no XML: it is without expat";
#endif
  }
};

/// What the Error says that `text` leads to; "" when it is taken.
inline std::string refusal(const std::string& text) {
  return test::thrown_by([&] { from_text(text, "sample"); }).text;
}

/// A sample with one place changed.
inline std::string with(std::string sample, const std::string& from, const std::string& to) {
  const auto at = sample.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return sample.replace(at, from.size(), to);
}

inline Machine known(const std::string& name) { return *builtin(name); }

}  // namespace tutti::topology::testing
