"""The table `position` as CSV."""

from multitracer.schemas.radio import POSITION
from parsers._text.mapped_log import own_table

FORMAT = own_table(
    POSITION,
    needed=frozenset({"lat_deg", "lon_deg"}),
    description="positions as CSV, with the columns of the table position",
)
