"""Lines of JSON, which schemathesis does not know."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
