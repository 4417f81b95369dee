"""Determines which variables of a file or dataset are coordinates by the CF conventions: lossy
codecs do not suit them."""

from __future__ import annotations

import re
from typing import Mapping

import numpy as np

from gridz._missing import is_read_as_unsigned

REFERENCES = (
    "coordinates", "bounds", "climatology", "grid_mapping", "cell_measures", "formula_terms", "geometry",
    "node_coordinates", "edge_coordinates", "face_coordinates", "volume_coordinates", "nodes", "node_count",
    "part_node_count", "interior_ring",
)  # fmt: skip
"""Attributes (CF, UGRID) that name coordinates and variables that describe coordinates.
`ancillary_variables` names data."""

NAMES = (
    "axis", "_CoordinateAxisType", "units", "standard_name", "grid_mapping_name", "cf_role",
    "flag_values", "flag_masks", "scale_factor", "add_offset", "_Unsigned",
)  # fmt: skip
"""Attributes that classify their own variable. (`positive` is not one: fluxes have it, too.)"""

UNITS = re.compile(
    r"\s*(degrees?_?([NSEW]|(?i:north|south|east|west))|\w+\s+(?i:since)\s+\S.*)\s*", re.DOTALL
)
"""Degrees of latitude and longitude, and times since a date."""

STANDARD_NAMES = re.compile(
    r"\s*((grid_)?(latitude|longitude)|time|forecast_(period|reference_time)|projection_[xyz]_(angular_)?coordinate|"
    r"(atmosphere|ocean)_\w*coordinate(_formula_terms)?|model_level_number|region|area_type)\s*"
)
"""Standard names of coordinates. Height, depth and pressure may be data as well: `axis` marks those."""


def coordinates(variables: Mapping[str, Mapping]) -> dict[str, str]:
    """The coordinates among variables, by their paths, each with the reason.

    `variables` maps paths, `/group/name`, to attributes. Groups may name coordinates, too; their
    paths end in a slash. A name in an attribute is looked up in the variable's group, and then in
    the parent groups.
    """
    found = {}
    for path, attributes in variables.items():
        why = _why(attributes)
        if why and not path.endswith("/"):
            found[path] = why
        for key in REFERENCES:
            for name in _names(attributes.get(key)):
                named = _resolved(path, name, variables)
                if named is not None and named != path:
                    found.setdefault(named, f"a coordinate (named in {key} of {path})")
    return found


def why_not_lossy(attributes: Mapping, dtype) -> str | None:
    """The reason why a bound on the stored numbers is not a bound on the values that readers see,
    or None."""
    if "scale_factor" in attributes or "add_offset" in attributes:
        return "packed values (scale_factor, add_offset), because it would bound the packed numbers"
    if is_read_as_unsigned(attributes, dtype):
        return "integers that readers take as unsigned or signed ones (_Unsigned)"
    return None


def _why(attributes: Mapping) -> str | None:
    for key in ("axis", "_CoordinateAxisType", "grid_mapping_name", "cf_role"):
        if _text(attributes.get(key)).strip():
            return f"a coordinate (it has the attribute {key})"
    for key, pattern in (("units", UNITS), ("standard_name", STANDARD_NAMES)):
        if pattern.fullmatch(_text(attributes.get(key))):
            return f"a coordinate ({key} {_text(attributes[key]).strip()!r})"
    if "flag_values" in attributes or "flag_masks" in attributes:
        return "flags (flag_values, flag_masks)"
    return None


def _names(value) -> list[str]:
    """The names in an attribute such as `lat lon`, `area: cell_area` or `crs: x y`. Some may not be
    variables."""
    return [name.rstrip(":") for name in _text(value).split()]


def _resolved(path: str, name: str, variables: Mapping) -> str | None:
    group = path.rpartition("/")[0]
    while True:
        parts = []
        for part in f"{group}/{name}".split("/") if not name.startswith("/") else name.split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in ("", "."):
                parts.append(part)
        found = "/" + "/".join(parts)
        if found in variables:
            return found
        if not group:
            return None
        group = group.rpartition("/")[0]


def _text(value) -> str:
    """The text of an attribute; for a list of texts, all of them."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value
    if isinstance(value, (np.ndarray, list, tuple)):
        return " ".join(_text(item) for item in np.ravel(np.asarray(value, object)))
    return ""
