"""What the Gateway API asks of an HTTPRoute, in the fields that we use.

By https://gateway-api.sigs.k8s.io/reference/spec/ (gateway.networking.k8s.io/v1), of which no
package of PyPI has a model. Other fields count as unknown: add each with its rule.
"""

import re

LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
NAME = rf"{LABEL}(\.{LABEL})*"  # and at most 253 characters
HOSTNAME = rf"(\*\.)?{NAME}"
DURATION = r"([0-9]{1,5}(h|m|s|ms)){1,4}"


def is_text(pattern, longest=253):
    return lambda value: isinstance(value, str) and len(value) <= longest \
        and re.fullmatch(pattern, value) is not None


def is_number(least, most):
    return lambda value: type(value) is int and least <= value <= most


def is_path(value):
    return set(value) == {"type", "value"} \
        and value["type"] in ("Exact", "PathPrefix", "RegularExpression") \
        and is_text(r"/[^?#]*", 1024)(value["value"])


is_port = is_number(1, 65535)
PARENT = {"name": is_text(NAME), "namespace": is_text(LABEL), "group": is_text(f"({NAME})?"),
          "kind": is_text("[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?", 63),
          "sectionName": is_text(NAME), "port": is_port}
# Without group and kind it is a Service, which needs a port.
BACKEND = {"name": is_text(NAME), "namespace": is_text(LABEL), "port": is_port,
           "weight": is_number(0, 1_000_000)}


def violations(route):
    """What the API server would say of the route."""
    found = []
    if route["apiVersion"] != "gateway.networking.k8s.io/v1":
        found.append(f"apiVersion is {route['apiVersion']}")
    spec = route["spec"]
    found += unknown("spec", spec, {"parentRefs", "hostnames", "rules"})
    found += fields_of_each(spec, "parentRefs", 32, PARENT, {"name"})
    found += [f"hostnames: {name!r} is none" for name in items(spec, "hostnames", 16, found)
              if not is_text(HOSTNAME)(name)]
    for rule in items(spec, "rules", 16, found):
        found += of_rule(rule)
    return found


def of_rule(rule):
    found = unknown("rule", rule, {"matches", "timeouts", "backendRefs"})
    for match in items(rule, "matches", 64, found):
        found += unknown("match", match, {"path"})
        if not is_path(match.get("path", {"type": "PathPrefix", "value": "/"})):
            found.append(f"match: path is {match['path']}")
    timeouts = rule.get("timeouts", {})
    found += fields("timeouts", timeouts, dict.fromkeys(("request", "backendRequest"),
                                                        is_text(DURATION)), set())
    return found + fields_of_each(rule, "backendRefs", 16, BACKEND, {"name", "port"})


def items(o, name, most, found):
    """The items of a list. The API server takes a route without parents, rules or backends, but it
    leads nowhere."""
    value = o.get(name)
    if value is None and name in ("hostnames", "matches"):
        return []
    if not isinstance(value, list) or len(value) > most or (not value and name != "hostnames"):
        found.append(f"{name} is no list of 1 to {most}: {value}")
        return []
    return value


def fields_of_each(o, name, most, rules, required):
    found = []
    for item in items(o, name, most, found):
        found += fields(name, item, rules, required)
    return found


def fields(what, o, rules, required):
    if not isinstance(o, dict):
        return [f"{what}: {o!r} is no object"]
    found = unknown(what, o, rules.keys())
    found += [f"{what} has no {name}" for name in sorted(required - o.keys())]
    return found + [f"{what}: {name} is {o[name]!r}" for name in rules
                    if name in o and not rules[name](o[name])]


def unknown(what, o, known):
    return [f"{what} has no field {name}" for name in sorted(o.keys() - known)]
