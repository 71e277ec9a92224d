"""Figures as SVG for one page: text stays text, colours follow the reader's theme, points tell their values."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from verify.report.style import write_figure

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
ET.register_namespace("", SVG)
ET.register_namespace("xlink", XLINK)


def name_points(artist: Artist, texts: Sequence[str]) -> None:
    """Give each marker of a line its own text, shown when a reader points at it."""
    figure = artist.get_figure(root=True)
    assert figure is not None
    names = figure.__dict__.setdefault("point_names", {})
    gid = f"points-{len(names)}"
    artist.set_gid(gid)
    names[gid] = list(texts)


def inline_svg(figure: Figure, prefix: str, alt: str) -> str:
    """The figure as an `<svg>` element to stand in a page beside others.

    Ids get `prefix`, so that two figures on a page do not share any; black becomes the page's text colour; `alt` is
    its accessible name.
    """
    stream = io.BytesIO()
    write_figure(figure, stream, "svg")
    root = ET.fromstring(stream.getvalue())
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-label", alt)
    for gid, texts in figure.__dict__.get("point_names", {}).items():
        _title_markers(root, gid, texts)
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name == "id":
                element.set(name, f"{prefix}-{value}")
            elif name == f"{{{XLINK}}}href" and value.startswith("#"):
                element.set(name, f"#{prefix}-{value[1:]}")
            else:
                value = re.sub(r"url\(#", f"url(#{prefix}-", value)
                element.set(name, re.sub(r"#000000\b", "currentColor", value))
        if element.tag == f"{{{SVG}}}text" and "fill" not in element.get("style", ""):
            element.set("style", f"{element.get('style', '')}; fill: currentColor".lstrip("; "))
    return ET.tostring(root, encoding="unicode")


def _title_markers(root: ET.Element, gid: str, texts: Sequence[str]) -> None:
    group = next((g for g in root.iter(f"{{{SVG}}}g") if g.get("id") == gid), None)
    if group is None:
        return
    for marker, text in zip(group.iter(f"{{{SVG}}}use"), texts):
        ET.SubElement(marker, f"{{{SVG}}}title").text = text
