"""Tables of the console, against what the administration says of its lists."""

from functools import cache
from typing import Any

import pytest
from fastapi import FastAPI

from gateway.web import api
from gateway.web.console.tables import TABLES, Column, Kind, Table, value_of
from tests.rigs.cases import for_each

TYPES = {
    Kind.NUMBER: {"integer", "number"},
    Kind.BYTES: {"integer"},
    Kind.TIME: {"date-time"},
    Kind.TEXT: {"string", "array"},
    Kind.CODE: {"string", "array"},
    Kind.STATE: {"string"},
}
"""Of a value in JSON, by how it is shown."""


@cache
def description() -> Any:
    """The administration in OpenAPI."""
    app = FastAPI()
    app.include_router(api.router)
    return app.openapi()


def schema_of(table: Table) -> Any:
    """The schema of a row."""
    answer = description()["paths"][f"/api/v1/{table.name}"]["get"]["responses"]["200"]
    page = _followed(answer["content"]["application/json"]["schema"])
    return _followed(page["properties"][table.rows]["items"])


def _followed(schema: Any) -> Any:
    """The schema itself, where *schema* names it; of one that may be null, what else it may be."""
    if "$ref" in schema:
        return _followed(description()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        [other] = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return _followed(other)
    return schema


EACH_COLUMN = [
    pytest.param(table, column, id=f"{table.name}-{column.field}")
    for table in TABLES.values()
    for column in table.columns
]
EACH_TABLE = [pytest.param(table, id=table.name) for table in TABLES.values()]


@for_each(("table", "column"), EACH_COLUMN)
def test_each_column_shows_a_field_of_its_type(table: Table, column: Column) -> None:
    schema = schema_of(table)
    for name in column.field.split("."):
        schema = _followed(schema["properties"][name])
    assert schema.get("format", schema["type"]) in TYPES[column.kind], schema


@pytest.mark.parametrize("table", EACH_TABLE)
def test_a_list_is_narrowed_by_parameters_of_its_request(table: Table) -> None:
    request = description()["paths"][f"/api/v1/{table.name}"]["get"]
    names = {one["name"] for one in request.get("parameters", [])}
    assert {one.name for one in table.narrowings} <= names
    assert table.id in schema_of(table)["properties"]


@pytest.mark.parametrize("table", EACH_TABLE)
def test_a_row_has_its_page_and_each_action_its_request(table: Table) -> None:
    paths = {
        (method, "/".join("{}" if part.startswith("{") else part for part in path.split("/")))
        for path, methods in description()["paths"].items()
        for method in methods
    }
    if table.shown:
        assert ("get", f"/api/v1/{table.name}/{{}}") in paths
    for action in table.actions:
        path = action.path.replace("{id}", "{}")
        assert (action.method.lower(), f"/api/v1/{table.name}{path}") in paths
        assert action.consequence.endswith(".")
        assert table.action(action.name) is action
    assert table.action("nothing") is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("a", 1), ("b.c", 2), ("b.d", None), ("a.b", None), ("x.y.z", None), ("b", {"c": 2})],
)
def test_the_value_at_a_field(field: str, value: object) -> None:
    assert value_of({"a": 1, "b": {"c": 2}}, field) == value


@pytest.mark.parametrize("table", [one for one in TABLES.values() if one.addition])
def test_what_is_added_has_the_fields_of_its_request(table: Table) -> None:
    request = description()["paths"][f"/api/v1/{table.name}"]["post"]["requestBody"]
    schema = _followed(request["content"]["application/json"]["schema"])
    assert table.addition is not None
    names = {"namespaces" if one.name == "ns" else one.name for one in table.addition.fields}
    assert names <= set(schema["properties"])
    assert {one.name for one in table.addition.fields if one.required} == set(schema["required"])
