from multitracer.api.campaign import compare as compare
from multitracer.api.campaign import open_campaign as open_campaign
from multitracer.api.correlate import correlate as correlate
from multitracer.api.events import epochs as epochs
from multitracer.api.events import join_nearest as join_nearest
from multitracer.api.frames import columns as columns
from multitracer.api.session import Session as Session
from multitracer.api.session import open as open  # noqa: A004  # as in gzip.open
from multitracer.errors import MultiTracerError as MultiTracerError
from multitracer.lab.received_power import received_power as received_power

channel = received_power  # deprecated, as received_power: the names until 0.1
Notebook = Session  # deprecated: the name until 0.1

__all__: list[str]
__version__: str
