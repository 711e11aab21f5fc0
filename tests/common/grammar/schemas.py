"""Schemas for oracle_test.py, which compares their texts with jsonschema: every supported keyword,
alone and in the combinations that applications use."""


def closed(properties, required=None):
    """An object as OpenAI's strict mode requires it."""
    return {"type": "object", "properties": properties,
            "required": list(properties) if required is None else required,
            "additionalProperties": False}


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
MANY_ITEMS = {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 90, "maxItems": 95}
X_AND_Y = {"type": "string", "pattern": "x\"?y"}

SCHEMAS = [
    {},
    {"type": "object"},
    closed({"name": STRING, "age": INTEGER}),
    closed({"steps": {"type": "array", "items": closed({"explanation": STRING, "output": STRING})},
            "final_answer": STRING}),
    closed({"a": {"type": ["string", "null"]}, "b": {"type": ["integer", "boolean", "null"]}}),
    closed({"unit": {"type": "string", "enum": ["c", "f"]}, "value": {"type": "number"}}),
    closed({"a": INTEGER, "b": STRING, "c": {"type": "boolean"}}, required=["b"]),
    closed({"a": INTEGER, "b": STRING}, required=[]),
    {"type": "object", "properties": {"a": INTEGER}, "required": ["a"],
     "additionalProperties": True},
    {"type": "object", "properties": {"a": INTEGER, "ab": STRING, "b\"": STRING},
     "additionalProperties": {"type": "null"}},
    {"type": "object", "additionalProperties": {"type": "array", "items": INTEGER}},
    {"type": "object", "required": ["x", "y"], "additionalProperties": INTEGER},
    {"$defs": {"node": closed({"value": INTEGER,
                               "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}})},
     "$ref": "#/$defs/node"},
    closed({"label": STRING, "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}}),
    {"type": "array", "items": {"anyOf": [INTEGER, {"type": "array", "items": {"$ref": "#"}}]}},
    {"anyOf": [closed({"type": {"const": "a"}, "x": INTEGER}),
               closed({"type": {"const": "b"}, "y": STRING})]},
    {"oneOf": [closed({"kind": {"const": "circle"},
                       "r": {"type": "number", "exclusiveMinimum": 0}}),
               closed({"kind": {"const": "square"},
                       "side": {"type": "number", "minimum": 1, "maximum": 9}})]},
    {"oneOf": [STRING, INTEGER, {"type": "null"}]},
    {"allOf": [{"$ref": "#/$defs/base"},
               {"type": "object", "properties": {"b": STRING}, "required": ["b"]}],
     "$defs": {"base": {"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}}},
    {"enum": [1, "two", None, [3, {"four": 5.5}], True, {"a": {"b": []}}]},
    {"const": {"x": "é\n\"", "y": [1.5, -2]}},
    {"type": "integer", "minimum": -17, "maximum": 1203},
    {"type": "integer", "exclusiveMinimum": 99},
    {"type": "integer", "exclusiveMaximum": -7.5},
    {"type": "number", "minimum": -3, "exclusiveMaximum": 12},
    {"type": "number", "exclusiveMinimum": -1, "maximum": 0},
    {"type": "number", "minimum": 5},
    {"type": "string", "minLength": 3, "maxLength": 8},
    {"type": "string", "minLength": 2},
    {"type": "string", "maxLength": 60},
    {"type": "string", "pattern": "^[A-Z]{2}-\\d{3,5}$"},
    X_AND_Y,
    {"type": "string", "pattern": "^(foo|bar)\\s[^a-z]+$|^\\\\$"},
    closed({"d": {"type": "string", "format": "date"}, "t": {"type": "string", "format": "time"},
            "dt": {"type": "string", "format": "date-time"}}),
    closed({"u": {"type": "string", "format": "uuid"}, "e": {"type": "string", "format": "email"},
            "i": {"type": "string", "format": "ipv4"}, "s": {"type": "string", "format": "ipv6"}}),
    closed({"h": {"type": "string", "format": "hostname"},
            "d": {"type": "string", "format": "duration"}}),
    {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 4},
    MANY_ITEMS,
    {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 90, "maxItems": 95},
    {"type": "array", "prefixItems": [STRING, INTEGER, {"type": "null"}],
     "items": {"type": "boolean"}, "minItems": 2},
    {"type": "array", "prefixItems": [STRING, INTEGER], "items": False},
    closed({"tool": {"const": "search"},
            "arguments": closed({"query": {"type": "string", "minLength": 1},
                                 "top": {"type": "integer", "minimum": 1, "maximum": 50},
                                 "filters": {"type": "array", "items": STRING}},
                                required=["query"])}),
    closed({f"field_{i}": [STRING, INTEGER, {"type": "boolean"}][i % 3] for i in range(30)},
           required=[f"field_{i}" for i in range(0, 30, 3)]),
]

# Schemas that need the intersection of two automata.
INTERSECTED = [
    {"type": "integer", "multipleOf": 7},
    {"type": "integer", "multipleOf": 12, "minimum": -100, "exclusiveMaximum": 5000},
    {"type": "number", "multipleOf": 0.01},
    {"type": "number", "multipleOf": 0.25, "minimum": -2.5, "maximum": 1000},
    {"type": "number", "minimum": -0.75, "exclusiveMaximum": 12.125},
    {"type": "number", "exclusiveMinimum": 0.5},
    {"type": "number", "maximum": -3.25},
    {"type": "string", "pattern": "^[A-Za-z_-]+$", "minLength": 2, "maxLength": 9},
    {"type": "string", "pattern": "^(ab|c\"|é)+d?$", "minLength": 4, "maxLength": 6},
    {"type": "string", "pattern": "x[0-9]", "maxLength": 5},
    {"type": "string", "format": "email", "maxLength": 12},
    {"type": "string", "format": "uri"},
    {"type": "string", "anyOf": [{"const": "a"}, {"pattern": "^b"},
                                 {"type": ["string", "null"], "minLength": 30}]},
    {"type": ["integer", "string"],
     "oneOf": [{"type": "number", "multipleOf": 2}, {"type": "string"}]},
]


def bounded(schema):
    """The schema with bounds where it has none, so that its texts end early, whatever model writes
    them. Keys of additional properties, digits of fractions and recursion have no keyword that
    bounds them."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for name in {"properties", "$defs"} & set(schema):
        out[name] = {key: bounded(value) for key, value in schema[name].items()}
    for name in {"items", "additionalProperties"} & set(schema):
        out[name] = bounded(schema[name])
    for name in {"anyOf", "oneOf", "allOf", "prefixItems"} & set(schema):
        out[name] = [bounded(value) for value in schema[name]]
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    if "string" in types and not {"enum", "const", "pattern", "format", "maxLength"} & set(schema):
        out["maxLength"] = schema.get("minLength", 0) + 8
    if "array" in types and "maxItems" not in schema and schema.get("items") is not False:
        out["maxItems"] = max(schema.get("minItems", 0), len(schema.get("prefixItems", []))) + 2
    if "integer" in types and not {"enum", "const", "minimum", "exclusiveMinimum"} & set(schema):
        out["minimum"] = -1000000
    if "integer" in types and not {"enum", "const", "maximum", "exclusiveMaximum"} & set(schema):
        out["maximum"] = 1000000
    return out


# Two schemas are bounded by hand: almost all texts of MANY_ITEMS are too long, and the end of a
# text of X_AND_Y is never found.
BOUNDED = [bounded(schema) for schema in SCHEMAS if schema not in (MANY_ITEMS, X_AND_Y)] + [
    {**MANY_ITEMS, "minItems": 30, "maxItems": 33},
    {**X_AND_Y, "pattern": "^[a-w]{0,6}x\"?y[^a-z]{0,3}$"},
]

# Values that are valid for some of the schemas and nearly valid for others.
INSTANCES = [
    None, True, 0, -17, -18, 1203, 1204, 99, 100, 5, 4.9, 12, 11.5, 0.0, -0.5, "", "ab", "abc",
    "abcdefgh", "abcdefghi", "AB-123", "AB-12", "ZZ-99999", "xy", "ax\"yb", "foo 12", "bar\tA",
    "\\", "two", "é\n\"", [], [1], [1, 2], [1, 2, 3, 4],
    [1, 2, 3, 4, 5], ["a", 1], ["a", 1, None, True], ["a", 1, 2], [[1], [[2]]], [3, {"four": 5.5}],
    {}, {"a": 1}, {"b": "x"},
    {"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": True}, {"b": "x", "c": 1}, {"a": {"b": []}},
    {"name": "n", "age": 3},
    {"name": "n"}, {"name": "n", "age": "3"}, {"x": 1, "y": 2}, {"x": 1}, {"a": 1, "z": None},
    {"ab": "", "zz": None},
    {"value": 1, "next": {"value": 2, "next": None}}, {"value": 1}, {"type": "a", "x": 1},
    {"type": "b", "y": ""},
    {"type": "a", "y": ""}, {"kind": "circle", "r": 0}, {"kind": "circle", "r": 0.25},
    {"kind": "square", "side": 9.5},
    {"unit": "c", "value": 1e5}, {"label": "l", "children": [{"label": "m", "children": []}]},
    {"x": "é\n\"", "y": [1.5, -2]}, {"a": None, "b": None},
    {"d": "2024-02-30", "t": "00:00:00Z", "dt": "2024-01-01T00:00:00Z"},
    {"a": [1, 2], "b": []}, {"tool": "search", "arguments": {"query": "q", "top": 51}},
    {"tool": "search", "arguments": {"query": "q", "top": 50, "filters": ["a"]}},
]

# Values that the grammar of the schema must accept as json.dumps writes them.
MUST_ACCEPT = [
    ({"type": "integer", "multipleOf": 7}, [0, 7, -7, 21, 700, 12345 * 7]),
    ({"type": "integer", "multipleOf": 12, "minimum": -100, "exclusiveMaximum": 5000},
     [-96, 0, 12, 4992]),
    ({"type": "number", "multipleOf": 0.01}, [0, 0.07, 12.3, -4.56, 100]),
    ({"type": "number", "multipleOf": 0.25, "minimum": -2.5, "maximum": 1000},
     [-2.5, 0.25, 999.75, 1000]),
    ({"type": "number", "minimum": -0.75, "exclusiveMaximum": 12.125},
     [-0.75, -0.5, 0, 3, 12, 12.1, 12.1249]),
    ({"type": "number", "exclusiveMinimum": 0.5}, [0.51, 0.5001, 1, 10.25]),
    ({"type": "number", "maximum": -3.25}, [-3.25, -3.5, -4, -100.125]),
    ({"type": "string", "pattern": "^[A-Za-z_-]+$", "minLength": 2, "maxLength": 9},
     ["ab", "A-b_c", "abcdefghi"]),
    ({"type": "string", "pattern": "^(ab|c\"|é)+d?$", "minLength": 4, "maxLength": 6},
     ["abab", "ééé" + "d", "c\"abéé"]),
    ({"type": "string", "pattern": "x[0-9]", "maxLength": 5}, ["x1", "é\nx1\\", "x1abc"]),
    ({"type": "string", "format": "uri"},
     ["https://example.org", "http://a.b-c.d:8080/e/f.g?h=%20&i#j", "s3://bucket/key"]),
    ({"type": "string", "anyOf": [{"const": "a"}, {"pattern": "^b"}]}, ["a", "b", "bcd"]),
    ({"type": ["integer", "string"],
      "oneOf": [{"type": "number", "multipleOf": 2}, {"type": "string"}]}, [2, -4, "x"]),
    (closed({f"p{i}": INTEGER for i in range(40)}, required=[]),
     [{}, {"p3": 1, "p17": 2, "p39": 3}, {"p10": 0}]),
]
