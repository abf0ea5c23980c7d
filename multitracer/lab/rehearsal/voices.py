"""How modems of different vendors report the same radio; the decoders of `protocols.modem` read it back.

A command that a modem does not know is refused. Values that are missing are said as the vendor says them: 99,
255, a dash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, Any]
    Voice = Callable[[str, Values], list[str] | None]

_PLMN = ("001", "01")
"""A test network, ITU-T E.212."""


def _bin(values: Values, name: str, *, zero: float, step: float, most: int, missing: int) -> int:
    value = values.get(name)
    return missing if value is None else min(most, max(0, round((value - zero) / step)))


def _whole(values: Values, name: str, missing: str = "-") -> str:
    value = values.get(name)
    return missing if value is None else str(round(value))


def _hex(values: Values, name: str, missing: str = "-") -> str:
    value = values.get(name)
    return missing if value is None else f"{value:X}"


def _csq(values: Values) -> str:
    rssi = _bin(values, "rssi_dbm", zero=-113, step=2, most=31, missing=99)
    return f"+CSQ: {rssi},{values.get('rxqual', 99)}"


def _cesq(values: Values) -> str:
    rsrq = _bin(values, "rsrq_db", zero=-20, step=0.5, most=34, missing=255)
    rsrp = _bin(values, "rsrp_dbm", zero=-141, step=1, most=97, missing=255)
    return f"+CESQ: 99,99,255,255,{rsrq},{rsrp}"


def _registration(name: str, values: Values) -> str:
    stat = values.get("registration", 0)
    if "cell_id" not in values:
        return f"{name}: 2,{stat}"
    return f'{name}: 2,{stat},"{values.get("area_code", 0):04X}","{values["cell_id"]:08X}",7'


def standard(command: str, values: Values) -> list[str] | None:
    """Answer the commands of TS 27.007."""
    if command == "AT+CSQ":
        return [_csq(values)]
    if command == "AT+CESQ":
        return [_cesq(values)]
    if command in ("AT+CREG?", "AT+CGREG?", "AT+CEREG?"):
        return [_registration(command[2:-1], values)]
    if command == "AT+COPS?":
        return ['+COPS: 0,0,"Rehearsal",7'] if "cell_id" in values else ["+COPS: 0"]
    return [] if command in ("AT+CREG=2", "AT+CGREG=2", "AT+CEREG=2") else None


def quectel(command: str, values: Values) -> list[str] | None:
    """Answer as an RM500 does."""
    if command == 'AT+QENG="servingcell"':
        if "cell_id" not in values:
            return ['+QENG: "servingcell","SEARCH"']
        cell, pci = _hex(values, "cell_id"), _whole(values, "physical_cell_id")
        area, channel = _hex(values, "area_code"), _whole(values, "channel")
        levels = ",".join(_whole(values, f"{n}") for n in ("rsrp_dbm", "rsrq_db", "rssi_dbm", "sinr_db"))
        network = f"{_PLMN[0]},{_PLMN[1]}"
        where = f"{network},{cell},{pci},{channel},3,5,5,{area}"
        return [f'+QENG: "servingcell","NOCONN","LTE","FDD",{where},{levels},9,-,20']
    if command == "AT+QCSQ":
        if "rsrp_dbm" not in values:
            return ['+QCSQ: "NOSERVICE"']
        sinr = _bin(values, "sinr_db", zero=-20, step=0.2, most=250, missing=0)
        rssi, rsrp, rsrq = (_whole(values, n) for n in ("rssi_dbm", "rsrp_dbm", "rsrq_db"))
        return [f'+QCSQ: "LTE",{rssi},{rsrp},{sinr},{rsrq}']
    return standard(command, values)


def sierra(command: str, values: Values) -> list[str] | None:
    """Answer as an MC7455 does: a page of names and values between TABs."""
    if command != "AT!GSTATUS?":
        return standard(command, values)
    page = ["!GSTATUS: ", "Current Time:  22016\t\tTemperature: 40"]
    if "cell_id" not in values:
        return [*page, "System mode:   None       \tPS state:    Not attached "]
    rssi, rsrp, rsrq = (_whole(values, name) for name in ("rssi_dbm", "rsrp_dbm", "rsrq_db"))
    return [
        *page,
        "System mode:   LTE        \tPS state:    Attached     ",
        f"LTE band:      B3     \t\tLTE bw:      10 MHz  \r\nLTE Rx chan:   {_whole(values, 'channel')}",
        f"PCC RxM RSSI:  {rssi}\t\tRSRP (dBm):  {rsrp}",
        f"Tx Power:      --\t\tTAC:         {values['area_code']:04X} ({values['area_code']})",
        f"RSRQ (dB):     {rsrq}\t\tCell ID:     {values['cell_id']:08X} ({values['cell_id']})",
        f"SINR (dB):     {values.get('sinr_db', 0.0):.1f}",
    ]


def ublox(command: str, values: Values) -> list[str] | None:
    """Answer as a SARA-R5 does."""
    if command == "AT+UCGED=2":
        return []
    if command != "AT+UCGED?":
        return standard(command, values)
    if "cell_id" not in values:
        return ["+UCGED: 2"]
    rsrp = _bin(values, "rsrp_dbm", zero=-141, step=1, most=97, missing=255)
    rsrq = _bin(values, "rsrq_db", zero=-19.5, step=0.5, most=46, missing=255)
    cell = f"{_whole(values, 'channel')},3,50,50,{values['area_code']:x},{values['cell_id']:x}"
    rest = f"d60814d1,8001,01,{rsrp},{rsrq},{values.get('sinr_db', 0.0):.2f},3,1,10,28,-50,-6,0,255,255,0"
    return ["+UCGED: 2", f"6,4,{_PLMN[0]},{_PLMN[1]}", f"{cell},{_whole(values, 'physical_cell_id')},{rest}"]


def telit(command: str, values: Values) -> list[str] | None:
    """Answer as an LE910 does; the subscriber is that of a test card."""
    if command == "AT#MONI=7":
        return []
    if "cell_id" not in values or command not in ("AT#RFSTS", "AT#SERVINFO", "AT#MONI"):
        return standard(command, values)
    rsrp, rssi, rsrq = (_whole(values, name) for name in ("rsrp_dbm", "rssi_dbm", "rsrq_db"))
    area, cell, channel = _hex(values, "area_code"), _hex(values, "cell_id"), _whole(values, "channel")
    network = " ".join(_PLMN)
    if command == "AT#RFSTS":
        rest = f'255,-5,128,19,2,{cell},"001010123456789","Rehearsal",3,2'
        return [f'#RFSTS: "{network}",{channel},{rsrp},{rssi},{rsrq},{area},{rest}']
    if command == "AT#SERVINFO":
        return [f'#SERVINFO: {channel},{rssi},"Rehearsal","{"".join(_PLMN)}",{cell},{area},128,3,{rsrp}']
    name = f"RSRP:{rsrp} RSRQ:{rsrq} TAC:{area} Id:{cell} EARFCN:{channel} PWR:{rssi}dbm DRX:128"
    return [f"#MONI: Rehearsal {name}"]


def simcom(command: str, values: Values) -> list[str] | None:
    """Answer as a SIM7600 does."""
    if command != "AT+CPSI?":
        return standard(command, values)
    if "cell_id" not in values:
        return ["+CPSI: NO SERVICE,Online"]
    where = f"{'-'.join(_PLMN)},0x{values['area_code']:04X},{values['cell_id']}"
    tenths = ",".join(str(round(values[name] * 10)) for name in ("rsrq_db", "rsrp_dbm", "rssi_dbm"))
    channel = f"{_whole(values, 'physical_cell_id')},EUTRAN-BAND3,{_whole(values, 'channel')}"
    return [f"+CPSI: LTE,Online,{where},{channel},5,5,{tenths},15"]


def cdpd(command: str, values: Values) -> list[str] | None:
    """Answer as a Sierra AirCard for CDPD does, and add the share of busy time, which no AirCard reports."""
    if command == "AT+WPRSSI":
        registered = int(values.get("registration") == 1)
        state, channel = (3, values.get("channel", 0)) if registered else (1, 0)
        return [f"{_whole(values, 'rssi_dbm', '-113')},{state},{registered},{channel}"]
    if command == "ATS112?":
        return [f"{round(values['bler_pct']):03d}" if "bler_pct" in values else "-"]
    if command == "AT*MTBUSY":
        return [f"*MTBUSY: {values['cell_busy_pct']:.1f}" if "cell_busy_pct" in values else "*MTBUSY: -"]
    return None


def link(command: str, values: Values) -> list[str] | None:
    """Answer as no real modem does: the radio of the modelled link in one line."""
    if command != "AT*MTLINK?":
        return standard(command, values)
    parts = (values.get(name) for name in ("rssi_dbm", "bler_pct", "cell_busy_pct"))
    levels = ",".join("-" if part is None else f"{part:.1f}" for part in parts)
    channel, registered = _whole(values, "channel"), _whole(values, "registration")
    ecio = values.get("ecio_db")
    pilot = "" if ecio is None else f",{ecio:.2f}"
    return [f"*MTLINK: {values.get('rat', '')},{levels},{channel},{registered}{pilot}"]


VOICES: dict[str, tuple[str, Voice]] = {
    "3gpp": ("Rehearsal\r\nPlain modem", standard),
    "quectel": ("Quectel\r\nRM500Q-GL", quectel),
    "sierra": ("Sierra Wireless, Incorporated\r\nMC7455", sierra),
    "ublox": ("u-blox\r\nSARA-R510S", ublox),
    "telit": ("Telit\r\nLE910C1-EUX", telit),
    "simcom": ("SIMCOM INCORPORATED\r\nSIMCOM_SIM7600E-H", simcom),
    "rehearsal_link": ("MultiTracer rehearsal link\r\nModem", link),
    "rehearsal_cdpd": ("MultiTracer rehearsal CDPD\r\nAirCard", cdpd),
}
"""Profile -> what such a modem says of itself, and how it answers."""


def answer(profile: str, command: str, values: Values) -> list[str] | None:
    """Return the lines before the final result; None if the command is refused."""
    identity, voice = VOICES[profile]
    maker, _, model = identity.partition("\r\n")
    if command in ("AT", "ATE0"):
        return []
    if command in ("ATI", "AT+CGMI", "AT+CGMM"):
        return {"ATI": [maker, model], "AT+CGMI": [maker], "AT+CGMM": [model]}[command]
    return voice(command, values)
