"""A figure as the JSON that plotly writes of it, made without plotly.

plotly takes half a second to import, check and copy what `stack.py` has made; a page needs none of that.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props
    from multitracer.tables import Document


def document(figure: go.Figure | Props) -> Document:
    """Return what plotly writes of a figure: the same keys and values in the same order.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure or dict
        A dict has its traces and layout, as `stack.plain_figure` gives them.
    """
    if not isinstance(figure, dict):
        written: Document = json.loads(figure.to_json())
        return written
    layout = _without_plotly(figure["layout"])
    return {"data": [_trace(trace) for trace in figure["data"]], "layout": layout}


def _trace(trace: Props) -> object:
    kind = {"type": trace["type"]}  # plotly adds it in the end
    return _without_plotly({name: value for name, value in trace.items() if name != "type"}) | kind


def _without_plotly(props: Props) -> Document:
    """Return properties in plotly's order, without those that say nothing."""
    return {name: _value(props[name]) for name in sorted(props) if not _is_unset(props[name])}


def _is_unset(value: object) -> bool:
    return value is None or (isinstance(value, list) and not value)


def _value(value: object) -> object:
    if isinstance(value, dict):
        return _without_plotly(value)
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return value.tolist()
    return {"dtype": "f8", "bdata": base64.b64encode(value.astype("<f8", copy=False).tobytes()).decode()}
