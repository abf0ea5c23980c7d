"""The table `radio` as CSV."""

from multitracer.schemas.radio import RADIO
from parsers._text.mapped_log import own_table

FORMAT = own_table(
    RADIO,
    needed=frozenset({"source", "rat"}),
    description="readings of the radio as CSV, with the columns of the table radio",
)
