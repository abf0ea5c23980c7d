from multitracer.analysis.group import SegmentKind as SegmentKind
from multitracer.analysis.sender_state import TcpPhase as TcpPhase
from multitracer.api.campaign import compare as compare
from multitracer.api.campaign import open_campaign as open_campaign
from multitracer.api.correlate import correlate as correlate
from multitracer.api.events import epochs as epochs
from multitracer.api.events import join_nearest as join_nearest
from multitracer.api.frames import columns as columns
from multitracer.api.session import Session as Session
from multitracer.api.session import open as open  # noqa: A004  # as in gzip.open
from multitracer.captured import Flag as Flag
from multitracer.diagnosis.limits.names import Limit as Limit
from multitracer.diagnosis.limits.names import RadioCause as RadioCause
from multitracer.errors import MultiTracerDeprecationWarning as MultiTracerDeprecationWarning
from multitracer.errors import MultiTracerError as MultiTracerError
from multitracer.lab.received_power import received_power as received_power
from multitracer.protocols.sock_diag import ReadBy as ReadBy
from multitracer.protocols.sock_diag import TcpCaState as TcpCaState
from multitracer.protocols.sock_diag import TcpEvent as TcpEvent
from multitracer.protocols.sock_diag import TcpState as TcpState
from multitracer.schemas.signalling import HandoverKind as HandoverKind
from multitracer.schemas.tcp import Close as Close
from multitracer.schemas.tcp import GoodputBy as GoodputBy
from multitracer.schemas.tcp import Initiator as Initiator
from multitracer.schemas.tcp import RoundTrips as RoundTrips
from multitracer.schemas.tcp import Vantage as Vantage
from multitracer.schemas.tcp import WindowScaleBy as WindowScaleBy

channel = received_power  # deprecated, as received_power: the names until 0.1
Notebook = Session  # deprecated: the name until 0.1

__all__: list[str]
__version__: str
