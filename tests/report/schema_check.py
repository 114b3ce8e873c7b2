"""Enough of JSON Schema to validate a document against docs/schema, and to refuse a schema that uses more."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_WORDS = {"$schema", "title", "description"}
_KNOWN = _WORDS | {"type", "enum", "minimum", "required", "properties", "additionalProperties", "items", "anyOf"}
_KNOWN |= {"$ref", "$defs"}


def faults(document: Any, schema: dict[str, Any], root: dict[str, Any] | None = None, place: str = "$") -> list[str]:
    """Where the document does not match the schema, one line each."""
    root = root or schema
    assert set(schema) <= _KNOWN, f"this check knows no {set(schema) - _KNOWN}"
    if "$ref" in schema:
        return faults(document, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    if "anyOf" in schema:
        found = [faults(document, choice, root, place) for choice in schema["anyOf"]]
        return [] if [] in found else found[0]
    wrong = [f"{place}: {document!r} is not {schema['type']}"] if not _is_of_type(document, schema.get("type")) else []
    if "enum" in schema and document not in schema["enum"]:
        wrong.append(f"{place}: {document!r} is not one of {schema['enum']}")
    if "minimum" in schema and isinstance(document, (int, float)) and document < schema["minimum"]:
        wrong.append(f"{place}: {document!r} is too small")
    if isinstance(document, dict):
        wrong += [f"{place}: {name!r} is missing" for name in schema.get("required", []) if name not in document]
        for name, value in document.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            wrong += faults(value, inner, root, f"{place}.{name}")
    if isinstance(document, list) and "items" in schema:
        for i, value in enumerate(document):
            wrong += faults(value, schema["items"], root, f"{place}[{i}]")
    return wrong


def _is_of_type(document: Any, types: str | list[str] | None) -> bool:
    if types is None:
        return True
    names = [types] if isinstance(types, str) else types
    if isinstance(document, bool):
        return "boolean" in names
    return any(isinstance(document, _TYPES[name]) for name in names)
