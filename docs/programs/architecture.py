"""Draw docs/images/architecture.svg from the imports of the code: `python -m docs.programs.architecture`.

Each package is a box; an arrow says "imports". An arrow that follows from others is left out: where a package
imports B and B imports C, the arrow to C is not drawn, whether the package imports C as well or not.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import grimp

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
ROOTS = ("multitracer", "parsers", "collectors")
SHARED = "shared"
"""One box for the modules that lie beside the packages: the tables and types that these share."""


class Place(NamedTuple):
    """Where a package is drawn: column (may be broken) and layer (0 is the lowest), and what the box says."""

    column: float
    layer: int
    words: str


PLACES = {
    "cli": Place(1.5, 11, "one file per command"),
    "api": Place(1.5, 10, "what analysts import"),
    "campaign": Place(1.2, 9, "thousands of sessions"),
    "report": Place(1.4, 8, "session → HTML page"),
    "geo": Place(2.35, 8, "route → map programs"),
    "export": Place(0.0, 8, "for Wireshark, Perfetto"),
    "diagnosis": Place(1.05, 6, "why it was slow"),
    "figures": Place(2.35, 7, "table → plotly figure"),
    "anonymize": Place(0.0, 6, "a copy to share"),
    "lab": Place(4.2, 10, "makes what is recorded"),
    "recording": Place(1.5, 5, "paths → Recording"),
    "recorder": Place(0.0, 4, "supervises collectors"),
    "analysis": Place(1.5, 4, "table → table"),
    "measure": Place(3.3, 4, "transactions"),
    "clock": Place(0.82, 3, "how clocks relate"),
    "plugins": Place(1.9, 3, "for other packages"),
    "parsers": Place(0.82, 2, "raw logs → tables"),
    "collectors": Place(4.2, 2, "live → raw logs"),
    "protocols": Place(2.9, 1, "protocol cores, no I/O"),
    SHARED: Place(2.3, 0, "tables · capture · tcp · sender · link · radio · units · errors"),
}
_COLUMN, _LAYER, _LEFT, _TOP = 186, 78, 100, 34
_WIDTH, _HEIGHT = 158, 46
_SHARED_WIDTH = 900
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
)
_STYLE = """
  text { font-family: system-ui, sans-serif; text-anchor: middle; fill: #1c2733 }
  .name { font-size: 15px; font-weight: 600 } .words { font-size: 11.5px; fill: #51606f }
  rect { fill: #eef3f8; stroke: #6b86a3; stroke-width: 1.2 }
  path { fill: none; stroke: #8094a8; stroke-width: 1.3; marker-end: url(#tip) }
  marker path { fill: #8094a8; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8eef4 } .words { fill: #a9b8c6 } rect { fill: #22303d; stroke: #7f9ab5 }
    path { stroke: #8ea3b8 } marker path { fill: #8ea3b8 }
  }
"""


def package(module: str) -> str | None:
    """Return the package that a module belongs to; None for `multitracer` itself."""
    root, *inside = module.split(".")
    if root != "multitracer":
        return root
    if not inside or inside[0] == "__main__":
        return None
    if inside[0] == "schemas":  # of every package
        return SHARED
    is_package = (ROOT / "multitracer" / inside[0] / "__init__.py").exists()
    return inside[0] if is_package or inside[0] in PLACES else SHARED


def modules() -> dict[str, set[str]]:
    """Return for each module those that it imports: also inside functions, and for type checking only."""
    graph = grimp.build_graph(*ROOTS, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def imports(direct: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return for each package those that its modules import, given what each module imports."""
    found: dict[str, set[str]] = {}
    for module, imported in direct.items():
        if importer := package(module):
            packages = {package(each) for each in imported} - {importer}
            found.setdefault(importer, set()).update(each for each in packages if each)
    return found


def arrows(direct: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports that do not follow from others (the transitive reduction), sorted."""

    def below(name: str) -> set[str]:
        return direct[name].union(*(below(each) for each in direct[name]))

    implied = {name: set().union(*(below(each) for each in direct[name])) for name in direct}
    return sorted((name, each) for name in direct for each in direct[name] - implied[name])


def drawing() -> str:
    """Return the picture as SVG."""
    layers = 1 + max(place.layer for place in PLACES.values())
    width, height = round(_LEFT * 2 + 4.4 * _COLUMN), _TOP * 2 + (layers - 1) * _LAYER
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>The packages of MultiTracer and what each imports</title>",
        f"<style>{_STYLE}</style>",
        _TIP,
        *(_arrow(*each) for each in arrows(imports(modules()))),
        *(_box(name) for name in PLACES),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _centre(name: str) -> tuple[float, float]:
    """Return the middle of a package's box, in pixels from the top left."""
    place = PLACES[name]
    top = max(each.layer for each in PLACES.values())
    return _LEFT + place.column * _COLUMN, _TOP + (top - place.layer) * _LAYER


def _arrow(importer: str, imported: str) -> str:
    """Return an arrow from the lower edge of one box to the upper edge of another, between near sides."""
    (x0, y0), (x1, y1) = _centre(importer), _centre(imported)
    y0, y1 = y0 + _HEIGHT / 2, y1 - _HEIGHT / 2
    if imported == SHARED:  # the box is as wide as the picture
        x1 = x0
    most = 0.46 * _WIDTH
    x0, x1 = x0 + max(-most, min(most, 0.35 * (x1 - x0))), x1 + max(-most, min(most, 0.15 * (x0 - x1)))
    return f'<path d="M{x0:.0f} {y0:.0f} L{x1:.0f} {y1:.0f}"/>'


def _box(name: str) -> str:
    """Return the box of a package with its name and its words."""
    x, y = _centre(name)
    width = _SHARED_WIDTH if name == SHARED else _WIDTH
    corner = f'x="{x - width / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{width}" height="{_HEIGHT}" rx="6"'
    title = "what the packages share" if name == SHARED else name
    return (
        f'<rect {corner}/><text class="name" x="{x:.0f}" y="{y - 3:.0f}">{escape(title)}</text>'
        f'<text class="words" x="{x:.0f}" y="{y + 14:.0f}">{escape(PLACES[name].words)}</text>'
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(drawing(), "utf-8")


if __name__ == "__main__":
    main()
