"""ns-3's half of the comparison: runs in an environment of its own that has the wheel `ns3`.

`python ns3_side.py SETTINGS.json` sends a stream from one node to another over a point-to-point link on which
listed packets are lost, and writes the congestion window and the bytes delivered as they changed beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ns import ns  # type: ignore[import-not-found]

ALGORITHMS = {"newreno": "ns3::TcpNewReno", "vegas": "ns3::TcpVegas"}
HANDSHAKE_PACKETS = 2
"""The SYN and its last ACK, which ns-3's error model counts."""
TRACES = """
#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/internet-module.h"
#include <cstdio>
using namespace ns3;
static FILE* out_file;
void on_cwnd(uint32_t, uint32_t bytes) {
    std::fprintf(out_file, "cwnd %.9f %u\\n", Simulator::Now().GetSeconds(), bytes);
}
void on_received(Ptr<const Packet> packet, const Address&) {
    std::fprintf(out_file, "rx %.9f %u\\n", Simulator::Now().GetSeconds(), packet->GetSize());
}
void watch_sender() {
    Config::ConnectWithoutContext(
        "/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/CongestionWindowInflated", MakeCallback(&on_cwnd));
}
void watch(const char* path, double start) {
    out_file = std::fopen(path, "w");
    Config::ConnectWithoutContext(
        "/NodeList/1/ApplicationList/*/$ns3::PacketSink/Rx", MakeCallback(&on_received));
    Simulator::Schedule(Seconds(start) + NanoSeconds(1), &watch_sender);
}
void finish() { std::fclose(out_file); }
void lose(Ptr<NetDevice> device, const std::vector<uint32_t>& numbers) {
    auto model = CreateObject<ReceiveListErrorModel>();
    model->SetList(std::list<uint32_t>(numbers.begin(), numbers.end()));
    device->SetAttribute("ReceiveErrorModel", PointerValue(model));
}
"""


def configure(settings: dict[str, Any]) -> None:
    """Make ns-3's TCP the one of RFC 5681, 6298 and 6582 alone."""
    values = {
        "ns3::TcpL4Protocol::SocketType": ns.TypeIdValue(ns.TypeId.LookupByName(ALGORITHMS[settings["congestion"]])),
        "ns3::TcpL4Protocol::RecoveryType": ns.TypeIdValue(ns.TypeId.LookupByName("ns3::TcpClassicRecovery")),
        "ns3::TcpSocketBase::Sack": ns.BooleanValue(False),
        "ns3::TcpSocketBase::Timestamp": ns.BooleanValue(False),
        "ns3::TcpSocketBase::WindowScaling": ns.BooleanValue(False),
        "ns3::TcpSocketBase::LimitedTransmit": ns.BooleanValue(False),
        "ns3::TcpSocketBase::MinRto": ns.TimeValue(ns.Seconds(1)),
        "ns3::TcpSocketBase::ClockGranularity": ns.TimeValue(ns.MilliSeconds(1)),
        "ns3::TcpSocket::SegmentSize": ns.UintegerValue(settings["mss_bytes"]),
        "ns3::TcpSocket::InitialCwnd": ns.UintegerValue(settings["initial_window_segments"]),
        "ns3::TcpSocket::DelAckCount": ns.UintegerValue(1),
        "ns3::TcpSocket::SndBufSize": ns.UintegerValue(1 << 20),
        "ns3::TcpSocket::RcvBufSize": ns.UintegerValue(settings["window_bytes"]),
    }
    for name, value in values.items():
        ns.Config.SetDefault(name, value)


def main() -> None:
    """Run one setting and write what was traced."""
    settings = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    trace = Path(sys.argv[1]).with_suffix(".trace")
    ns.cppyy.cppdef(TRACES)
    configure(settings)
    nodes = ns.NodeContainer()
    nodes.Create(2)
    link = ns.PointToPointHelper()
    link.SetDeviceAttribute("DataRate", ns.StringValue(f"{settings['rate_bps']}bps"))
    link.SetChannelAttribute("Delay", ns.StringValue(f"{settings['delay_ms']}ms"))
    link.SetQueue("ns3::DropTailQueue", "MaxSize", ns.StringValue("1000p"))
    devices = link.Install(nodes)
    ns.InternetStackHelper().Install(nodes)
    ns.TrafficControlHelper.Default()
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("10.1.1.0"), ns.Ipv4Mask("255.255.255.0"))
    interfaces = addresses.Assign(devices)
    ns.TrafficControlHelper().Uninstall(devices)
    ns.cppyy.gbl.lose(devices.Get(1), [n + HANDSHAKE_PACKETS for n in settings["lost"]])
    remote = ns.InetSocketAddress(interfaces.GetAddress(1), 9).ConvertTo()
    source = ns.BulkSendHelper("ns3::TcpSocketFactory", remote)
    source.SetAttribute("MaxBytes", ns.UintegerValue(settings["bytes"]))
    source.SetAttribute("SendSize", ns.UintegerValue(settings["mss_bytes"]))
    source.Install(nodes.Get(0)).Start(ns.Seconds(1))
    anywhere = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), 9).ConvertTo()
    ns.PacketSinkHelper("ns3::TcpSocketFactory", anywhere).Install(nodes.Get(1)).Start(ns.Seconds(0))
    ns.cppyy.gbl.watch(str(trace), 1.0)
    ns.Simulator.Stop(ns.Seconds(settings["seconds"]))
    ns.Simulator.Run()
    ns.cppyy.gbl.finish()
    ns.Simulator.Destroy()


if __name__ == "__main__":
    main()
