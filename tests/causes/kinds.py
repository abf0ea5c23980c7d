"""All kinds of recordings; a seed's place in this list decides its kind."""

from tests.causes import kinds_hosts, kinds_path

KINDS = (*kinds_path.KINDS, *kinds_hosts.KINDS)
