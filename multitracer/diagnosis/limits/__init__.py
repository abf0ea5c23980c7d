"""What limited a transfer, instant by instant, on any network (docs/limits.md)."""

from multitracer.diagnosis.limits.limited import Limited, limited
from multitracer.diagnosis.limits.names import Confidence, Limit, Part, View

__all__ = ["Confidence", "Limit", "Limited", "Part", "View", "limited"]
