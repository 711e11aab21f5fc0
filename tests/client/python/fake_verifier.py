"""A verifier's Generation service with scripted answers, on a free loopback port."""

import threading
from concurrent import futures

import grpc
from outrider.v1 import generation_pb2 as pb
from outrider.v1 import generation_pb2_grpc


def chunk(text, ids, accepted=0, drafted=0):
    return pb.GenerateResponse(chunk=pb.TokenChunk(text=text, token_ids=ids, accepted=accepted,
                                                   drafted=drafted))


def finished(completion_tokens=2, **more):
    return pb.GenerateResponse(finished=pb.Finished(
        reason=pb.Finished.REASON_LENGTH, prompt_tokens=3, completion_tokens=completion_tokens,
        **more))


class FakeVerifier(generation_pb2_grpc.GenerationServicer):
    """`script(request, context)` yields the answers of a Generate call. The service remembers the
    requests, their headers, how many ran at once, and which calls ended before their script did.
    GetStatus does not answer before its call ends; `asked` says that it was called. With
    `takes_pings` it takes them as often as they come."""

    def __init__(self, script, credentials=None, takes_pings=False):
        self.script = script
        self.requests, self.headers = [], []
        self.running = self.most_running = 0
        self.cancelled, self.asked = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        options = [("grpc.http2.min_ping_interval_without_data_ms", 1)] if takes_pings else []
        self._server = grpc.server(futures.ThreadPoolExecutor(32), options=options)
        generation_pb2_grpc.add_GenerationServicer_to_server(self, self._server)
        add = (self._server.add_insecure_port if credentials is None
               else lambda address: self._server.add_secure_port(address, credentials))
        self.address = f"127.0.0.1:{add('127.0.0.1:0')}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(None).wait()

    def Generate(self, request, context):
        with self._lock:
            self.requests.append(request)
            self.headers.append(dict(context.invocation_metadata()))
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        done = []
        context.add_callback(lambda: None if done else self.cancelled.set())
        try:
            yield from self.script(request, context)
            done.append(True)
        finally:
            with self._lock:
                self.running -= 1

    def Tokenize(self, request, context):
        self.headers.append(dict(context.invocation_metadata()))
        return pb.TokenizeResponse(token_ids=[len(request.text), int(request.add_prefix)])

    def GetModel(self, request, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

    def GetStatus(self, request, context):
        ended = threading.Event()
        context.add_callback(ended.set)
        self.asked.set()
        ended.wait()
        return pb.GetStatusResponse()
