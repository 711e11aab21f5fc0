#!/usr/bin/env python3
"""A gRPC client that uses server reflection alone, without .proto files or generated code.

It asks a running verifier what it serves, builds messages from the descriptors it receives, then
generates text, reads statistics, provokes an error, cancels, and checks health.

  reflection_test.py SOURCE_DIR BINARY_DIR
"""

import pathlib
import re
import sys
import tempfile
import time

from processes import SKIPPED, TIME_LIMIT, Processes, small_pair

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError:
    print("skipped: python3-grpcio or python3-protobuf is not installed")
    sys.exit(SKIPPED)

REFLECTION = "grpc.reflection.v1alpha"


def message_class(pool, name):
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def reflection_pool():
    """Descriptors of the few fields of the reflection protocol that are used here."""
    file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package=REFLECTION,
                                              syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    shapes = {
        "ServerReflectionRequest": [("file_containing_symbol", 4, None),
                                    ("list_services", 7, None)],
        "ServerReflectionResponse": [("file_descriptor_response", 4, "FileDescriptorResponse"),
                                     ("list_services_response", 6, "ListServiceResponse"),
                                     ("error_response", 7, "ErrorResponse")],
        "FileDescriptorResponse": [("file_descriptor_proto", 1, bytes)],
        "ListServiceResponse": [("service", 1, "ServiceResponse")],
        "ServiceResponse": [("name", 1, None)],
        "ErrorResponse": [("error_message", 2, None)],
    }
    for name, fields in shapes.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            added = message.field.add(name=field_name, number=number, label=field.LABEL_OPTIONAL)
            if isinstance(kind, str):
                added.type, added.type_name = field.TYPE_MESSAGE, f".{REFLECTION}.{kind}"
            else:
                added.type = field.TYPE_BYTES if kind is bytes else field.TYPE_STRING
            if field_name in ("file_descriptor_proto", "service"):
                added.label = field.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


class Server:
    """A server that the client knows only through reflection."""

    def __init__(self, channel):
        self.channel = channel
        pool = reflection_pool()
        self.request = message_class(pool, f"{REFLECTION}.ServerReflectionRequest")
        self.ask = channel.stream_stream(
            f"/{REFLECTION}.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(
                pool, f"{REFLECTION}.ServerReflectionResponse").FromString)
        listed = self.reflect(list_services="all").list_services_response
        self.services = {service.name for service in listed.service}
        self.pool = descriptor_pool.DescriptorPool()

    def reflect(self, **question):
        (answer,) = self.ask(iter([self.request(**question)]), timeout=TIME_LIMIT)
        assert not answer.HasField("error_response"), answer.error_response
        return answer

    def service(self, name):
        """The service's methods by name: call(**fields) returns the answer, or an iterator if the
        method streams."""
        answer = self.reflect(file_containing_symbol=name)
        files = answer.file_descriptor_response.file_descriptor_proto
        for text in reversed(files):  # imported files come last
            self.pool.AddSerializedFile(text)
        methods = self.pool.FindServiceByName(name).methods
        protos = descriptor_pb2.ServiceDescriptorProto()
        self.pool.FindServiceByName(name).CopyToProto(protos)
        streams = {method.name: method.server_streaming for method in protos.method}
        return {method.name: self.caller(name, method, streams[method.name]) for method in methods}

    def caller(self, service, method, streams):
        question = message_class(self.pool, method.input_type.full_name)
        make = self.channel.unary_stream if streams else self.channel.unary_unary
        answer = message_class(self.pool, method.output_type.full_name)
        call = make(f"/{service}/{method.name}", request_serializer=question.SerializeToString,
                    response_deserializer=answer.FromString)
        return lambda **fields: call(json_format.ParseDict(fields, question()), timeout=TIME_LIMIT)


def check_generates(methods):
    model = methods["GetModel"]()
    assert model.vocab_size > 1000 and model.max_context > 0, model
    prompt = methods["Tokenize"](text="Once upon a time", add_prefix=True).token_ids
    text, tokens, finished = "", [], None
    for answer in methods["Generate"](tokenIds={"ids": list(prompt)}, sampling={"temperature": 0},
                                      stop={"maxTokens": 24, "ignoreEos": True}, logprobs=2):
        assert finished is None, "Finished is the last message"
        if answer.HasField("finished"):
            finished = answer.finished
            continue
        chunk = answer.chunk
        assert len(chunk.logprobs) == len(chunk.token_ids)
        for token, entry in zip(chunk.token_ids, chunk.logprobs):
            assert entry.top_token_ids[0] == token, "greedy picks the most likely"
        text += chunk.text
        tokens += chunk.token_ids
    assert len(tokens) == finished.completion_tokens == 24 and finished.prompt_tokens == len(prompt)
    assert methods["Detokenize"](token_ids=tokens).text == text, (text, tokens)
    # Statistics: rounds, and the draft tokens they verified.
    speculation = finished.speculation
    planned = sum(arm.rounds for arm in speculation.arms)  # only with more than one token left
    assert speculation.rounds - 1 <= planned <= speculation.rounds <= 24, speculation
    asked = []

    def has_drafts():
        asked[:] = methods["Generate"](text="Once upon a time",
                                       stop={"maxTokens": 24, "ignoreEos": True},
                                       sampling={"temperature": 0}, speculation={"draftLength": 3})
        drafted = "".join(answer.chunk.text for answer in asked[:-1])
        assert drafted == text, "drafts change no greedy text"
        return asked[-1].finished.speculation.drafted_tokens > 0

    # On a busy machine all drafts can be late for a while.
    await_true("drafts in time", has_drafts)
    drafted = asked[-1].finished.speculation
    assert sum(drafted.accepted_per_position) == drafted.accepted_tokens, drafted
    status = methods["GetStatus"]()
    assert [drafter.name for drafter in status.drafters] == ["reflected"], status
    assert status.drafters[0].drafted_tokens >= drafted.drafted_tokens, status


def check_errors(methods):
    try:
        list(methods["Generate"](text="x", sampling={"topP": 3}))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        assert "top_p" in error.details(), error
    else:
        raise AssertionError("top_p of 3 was taken")


def check_cancels(methods):
    call = methods["Generate"](text="Once upon a time", stop={"ignoreEos": True})
    next(iter(call))
    assert methods["GetStatus"]().sessions_running == 1
    call.cancel()
    await_true("the session's end", lambda: methods["GetStatus"]().sessions_running == 0)


def check_health(server, service):
    """Checks gRPC's own health service, which the server describes with a file of ours."""
    health = server.service("grpc.health.v1.Health")
    assert json_format.MessageToDict(health["Check"](service=service)) == {"status": "SERVING"}
    watched = health["Watch"](service=service)
    assert json_format.MessageToDict(next(iter(watched))) == {"status": "SERVING"}
    watched.cancel()


def await_true(what, condition):
    until = time.monotonic() + TIME_LIMIT
    while not condition():
        assert time.monotonic() < until, f"waited {TIME_LIMIT} s for {what}"
        time.sleep(0.02)


def main():
    binaries = pathlib.Path(sys.argv[2])
    models = small_pair(binaries)
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        line = processes.start("verifier",
                               [binaries / "outrider-verifier", "--model", models / "target",
                                "--listen", "127.0.0.1:0"], await_line=" port=").line
        address = "127.0.0.1:" + re.search(r" port=(\d+)", line).group(1)
        processes.start("drafter", [binaries / "outrider-drafter", "--model", models / "drafter",
                                    "--verifier", address, "--name", "reflected"])
        with grpc.insecure_channel(address) as channel:
            server = Server(channel)
            expected = {"outrider.v1.Generation", "outrider.v1.Drafting", "grpc.health.v1.Health"}
            assert expected <= server.services, server.services
            methods = server.service("outrider.v1.Generation")
            await_true("the drafter", lambda: methods["GetStatus"]().drafters)
            check_generates(methods)
            check_errors(methods)
            check_cancels(methods)
            check_health(server, "outrider.v1.Generation")
    print("a client by reflection: text, statistics, errors, cancellation and health")


if __name__ == "__main__":
    main()
