"""A Starlink dish for tests: a gRPC server with the dish's description, which it gives by reflection.

The field numbers are those of SpaceX.API.Device (device.proto, dish.proto) as far as the collector asks.
"""

from __future__ import annotations

from concurrent import futures
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

PACKAGE = "SpaceX.API.Device"
_KINDS = {"float": 2, "uint64": 4, "uint32": 13, "int32": 5, "bool": 8, "string": 9, "int64": 3}
_MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "GetStatusRequest": [],
    "GetHistoryRequest": [],
    "Request": [("get_status", 1004, "GetStatusRequest"), ("get_history", 1007, "GetHistoryRequest")],
    "DeviceInfo": [("id", 1, "string"), ("hardware_version", 2, "string"), ("software_version", 3, "string")],
    "DeviceState": [("uptime_s", 1, "uint64")],
    "DishAlerts": [("motors_stuck", 1, "bool"), ("thermal_throttle", 3, "bool")],
    "DishOutage": [("cause", 1, "DishOutage.Cause"), ("start_timestamp_ns", 2, "int64"), ("duration_ns", 3, "uint64")],
    "DishObstructionStats": [
        ("fraction_obstructed", 1, "float"), ("valid_s", 4, "float"), ("currently_obstructed", 5, "bool"),
    ],
    "DishGetStatusResponse": [
        ("device_info", 1, "DeviceInfo"), ("device_state", 2, "DeviceState"), ("alerts", 1005, "DishAlerts"),
        ("outage", 1014, "DishOutage"), ("obstruction_stats", 1004, "DishObstructionStats"),
        ("pop_ping_drop_rate", 1003, "float"), ("downlink_throughput_bps", 1007, "float"),
        ("uplink_throughput_bps", 1008, "float"), ("pop_ping_latency_ms", 1009, "float"),
        ("boresight_azimuth_deg", 1011, "float"), ("boresight_elevation_deg", 1012, "float"),
    ],
    "DishGetHistoryResponse": [
        ("current", 1, "uint64"), ("pop_ping_drop_rate", 1001, "float*"), ("pop_ping_latency_ms", 1002, "float*"),
        ("downlink_throughput_bps", 1003, "float*"), ("uplink_throughput_bps", 1004, "float*"),
        ("outages", 1009, "DishOutage*"),
    ],
    "Response": [
        ("dish_get_status", 2004, "DishGetStatusResponse"), ("dish_get_history", 2006, "DishGetHistoryResponse"),
    ],
}  # fmt: skip
_CAUSES = {"UNKNOWN": 0, "BOOTING": 1, "NO_SCHEDULE": 4, "NO_SATS": 5, "OBSTRUCTED": 6, "NO_DOWNLINK": 7}
SAMPLES = 900


def _description() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="spacex/api/device/device.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            label = 3 if kind.endswith("*") else 1
            kind = kind.rstrip("*")  # noqa: PLW2901
            if kind in _KINDS:
                message.field.add(name=field, number=number, type=_KINDS[kind], label=label)
            else:
                sort = 14 if kind.endswith("Cause") else 11
                message.field.add(name=field, number=number, type=sort, label=label, type_name=f".{PACKAGE}.{kind}")
        if name == "DishOutage":
            enum = message.enum_type.add(name="Cause")
            for word, number in _CAUSES.items():
                enum.value.add(name=word, number=number)
    service = file.service.add(name="Device")
    service.method.add(name="Handle", input_type=f".{PACKAGE}.Request", output_type=f".{PACKAGE}.Response")
    return file


class FakeDish:
    """A dish whose seconds a test sets: `samples` is one (latency in ms or None, loss, down, up) a second."""

    def __init__(self) -> None:
        pool = descriptor_pool.DescriptorPool()
        pool.Add(_description())
        self._response: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Response"))
        request: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Request"))
        self.samples: list[tuple[float | None, float, float, float]] = []
        self.outages: list[tuple[str, int, int]] = []
        self.is_obstructed = False
        self._names = (f"{PACKAGE}.Device", reflection.SERVICE_NAME)
        self._pool, self.port = pool, 0
        method = grpc.unary_unary_rpc_method_handler(
            lambda asked, _: self._answer(asked),
            request_deserializer=request.FromString,
            response_serializer=self._response.SerializeToString,
        )
        self._handler = grpc.method_handlers_generic_handler(f"{PACKAGE}.Device", {"Handle": method})
        self.start()

    def start(self) -> None:
        """Answer, on the same port as before."""
        self.server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((self._handler,))
        reflection.enable_server_reflection(self._names, self.server, pool=self._pool)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()

    def stop(self) -> None:
        """End the server at once."""
        self.server.stop(None).wait()

    def _answer(self, asked: Any) -> Any:
        made = self._response()
        if asked.HasField("get_status"):
            status = made.dish_get_status
            status.device_info.id, status.device_state.uptime_s = "ut01000000-0000", len(self.samples)
            latency, status.pop_ping_drop_rate, status.downlink_throughput_bps, status.uplink_throughput_bps = (
                self.samples[-1] if self.samples else (0.0, 0.0, 0.0, 0.0)
            )
            status.pop_ping_latency_ms = latency or 0.0
            status.obstruction_stats.fraction_obstructed = 0.03125
            status.obstruction_stats.currently_obstructed = self.is_obstructed
            if self.is_obstructed:
                status.outage.cause = _CAUSES["OBSTRUCTED"]
            return made
        history = made.dish_get_history
        history.current = len(self.samples)
        ring: list[tuple[float | None, float, float, float]] = [(0.0, 0.0, 0.0, 0.0)] * SAMPLES
        for second, sample in enumerate(self.samples):
            ring[second % SAMPLES] = sample
        for latency, drop, down, up in ring:
            history.pop_ping_latency_ms.append(latency or 0.0)
            history.pop_ping_drop_rate.append(drop)
            history.downlink_throughput_bps.append(down)
            history.uplink_throughput_bps.append(up)
        for cause, start_ns, duration_ns in self.outages:
            history.outages.add(cause=_CAUSES[cause], start_timestamp_ns=start_ns, duration_ns=duration_ns)
        return made
