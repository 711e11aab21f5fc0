#!/usr/bin/env python3
"""examples/draft_host.py: Outrider's drafter and the n-gram drafter draft for a target that is not
Outrider's. The text is replayed whole in fewer steps than it has tokens, and a drafter may vanish.

  draft_host_test.py SOURCE_DIR BINARY_DIR
"""

import json
import pathlib
import queue
import re
import sys
import tempfile
import threading
import unittest

from processes import SKIPPED, TIME_LIMIT, Processes

try:
    import grpc
except ImportError:
    print("skipped: python3-grpcio is not installed")
    sys.exit(SKIPPED)

from outrider.v1 import drafting_pb2 as pb
from outrider.v1 import drafting_pb2_grpc

SOURCE, BINARIES = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "examples"))
import draft_host  # noqa: E402

MODELS = SOURCE / "models/default"


class SessionTest(unittest.TestCase):
    def setUp(self):
        self.session = draft_host.Session(7, None, [1, 2], length=3)

    def take(self, tokens, round_=1, **more):
        return self.session.take(pb.Draft(session=7, round=round_, token_ids=tokens, **more),
                                 vocab_limit=100)

    def test_takes_parts_of_its_round(self):
        self.assertTrue(self.take([3], more=True))
        self.assertFalse(self.session.whole)
        self.assertTrue(self.take([4, 5], parents=[1, 2]) and self.session.whole)
        self.assertEqual(self.session.draft, [3, 4, 5])
        self.assertTrue(self.take([9], round_=0), "an answer to an older plan")
        self.assertEqual(self.session.draft, [3, 4, 5])

    def test_refuses_what_breaks_the_contract(self):
        for tokens, more in [([100], {}), ([1, 2, 3, 4], {}), ([1, 2], {"parents": [0, 0]})]:
            self.assertFalse(self.take(tokens, **more), tokens)
        self.take([1, 2, 3])
        self.assertFalse(self.take([4]), "a part after the last one")

    def test_verdicts_count_what_was_accepted(self):
        self.take([3, 4, 5])
        verdict = self.session.decide([1, 2, 3, 4, 9], length=3)
        self.assertEqual((verdict.session, verdict.round, verdict.node, list(verdict.next)),
                         (7, 1, 2, [9]))
        self.assertEqual((verdict.plan.round, verdict.plan.length, self.session.draft), (2, 3, []))
        # The last token is the target's, also if it is the draft's next one.
        self.take([6, 7], round_=2)
        verdict = self.session.decide([1, 2, 3, 4, 9, 6], length=3)
        self.assertEqual((verdict.node, list(verdict.next)), (0, [6]))

    def test_uses_early_drafts_whose_end_fits(self):
        def early(node, following):
            return {"early": pb.RoundEnd(node=node, next=following)}

        self.take([3, 4, 5])
        self.take([6, 7, 8], round_=2, **early(3, 9))
        self.take([7, 7, 7], round_=2, **early(0, 9))
        self.session.decide([1, 2, 3, 4, 5, 9], length=3)
        self.assertEqual((self.session.draft, self.session.whole), ([6, 7, 8], True))
        # None fits, then one does that has crossed the verdict.
        self.session.decide([1, 2, 3, 4, 5, 9, 6, 1], length=3)
        self.assertFalse(self.session.whole)
        self.take([2, 2, 2], round_=3, **early(2, 1))
        self.take([4, 4, 4], round_=3, **early(1, 1))
        self.assertEqual((self.session.draft, self.session.whole), ([4, 4, 4], True))
        # A plan of another length repeats none.
        self.take([5, 5, 5], round_=4, **early(0, 8))
        self.session.decide([1, 2, 3, 4, 5, 9, 6, 1, 8], length=2)
        self.assertFalse(self.session.whole)


class HostTest(unittest.TestCase):
    """Against a drafter that is lost in the middle."""

    def setUp(self):
        self.host = draft_host.DraftHost(draft_host.vocabulary_of(MODELS / "target"))
        self.server = draft_host.server_of(self.host)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()
        self.addCleanup(lambda: self.server.stop(None).wait())

    def await_drafters(self, count):
        with self.host.changed:
            self.assertTrue(self.host.changed.wait_for(lambda: len(self.host.drafters) == count,
                                                       TIME_LIMIT))

    def start(self, processes, name, *command):
        return processes.start(name, [*command, "--verifier", self.address], await_line="attached")

    def test_goes_on_without_a_drafter(self):
        self.assertEqual(self.host.propose({"a": [1, 2]}, 4, timeout=0), {})
        with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
            drafter = self.start(processes, "ours", BINARIES / "outrider-drafter", "--model",
                                 MODELS / "drafter", "--metrics", "")
            self.await_drafters(1)
            self.assertEqual(len(self.host.propose({"a": [1, 2, 3],
                                                    "b": [4, 5]}, 4, TIME_LIMIT)["a"]), 4)
            drafter.kill()
            self.await_drafters(0)
            self.assertEqual(self.host.propose({"a": [1, 2, 3, 4]}, 4, timeout=0), {})
            ngram = self.start(processes, "ngram", sys.executable, "-B",
                               SOURCE / "examples/ngram_drafter.py")
            self.await_drafters(1)
            self.assertEqual(self.host.propose({"a": [1, 2, 3, 1, 2]}, 4, TIME_LIMIT),
                             {"a": [3, 1, 2, 3]})
            self.assertEqual(self.host.propose({}, 4, TIME_LIMIT), {}, "closes the session")
            ngram.terminate()
            self.assertEqual(ngram.wait(timeout=TIME_LIMIT), 0, "it leaves after its last session")

    def test_refuses_other_versions(self):
        channel = grpc.insecure_channel(self.address)
        stop = threading.Event()

        def hello():
            yield pb.FromDrafter(hello=pb.Hello(protocol_version=1, translates=True))
            stop.wait(TIME_LIMIT)

        with self.assertRaises(grpc.RpcError) as caught:
            list(drafting_pb2_grpc.DraftingStub(channel).Attach(hello()))
        stop.set()
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        channel.close()

    def test_refuses_streams_without_handshake(self):
        with grpc.insecure_channel(self.address) as channel:
            for hellos in ([], [pb.Hello(protocol_version=3, translates=True)]):
                call = drafting_pb2_grpc.DraftingStub(channel).Attach(
                    iter([pb.FromDrafter(hello=hello) for hello in hellos]))
                with self.assertRaises(grpc.RpcError) as caught:
                    list(call)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)

    def test_refuses_one_drafter_too_many(self):
        ended, stop = queue.SimpleQueue(), threading.Event()

        def silent():
            stop.wait(TIME_LIMIT)
            yield from ()

        with grpc.insecure_channel(self.address) as channel:
            calls = [drafting_pb2_grpc.DraftingStub(channel).Attach(silent())
                     for _ in range(draft_host.MOST_DRAFTERS + 1)]
            for call in calls:
                call.add_done_callback(ended.put)
            try:
                self.assertEqual(ended.get(timeout=TIME_LIMIT).code(),
                                 grpc.StatusCode.RESOURCE_EXHAUSTED)
            finally:
                stop.set()
                for call in calls:
                    call.cancel()


class ReplayTest(unittest.TestCase):
    def test_our_drafter_drafts_for_another_target(self):
        with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
            line = processes.start("verifier", [
                BINARIES / "outrider-verifier", "--model", MODELS / "target", "--listen",
                "127.0.0.1:0", "--metrics", ""], await_line=" port=").line
            verifier = "127.0.0.1:" + re.search(r" port=(\d+)", line).group(1)
            host = processes.start("host", [
                sys.executable, "-B", SOURCE / "examples/draft_host.py", "--verifier", verifier,
                "--model", MODELS / "target", "--listen", "127.0.0.1:0"], await_line="port=")
            processes.start("drafter", [
                BINARIES / "outrider-drafter", "--model", MODELS / "drafter", "--metrics", "",
                "--verifier", "127.0.0.1:" + host.line.split("=")[1]], await_line=" attached ")
            self.assertEqual(host.wait(timeout=TIME_LIMIT), 0)
            run = json.loads((processes.folder / "host.log").read_text().splitlines()[-1])
            self.assertLess(run["steps"], run["tokens"] / len(draft_host.PROMPTS), run)
            self.assertGreater(run["accepted"], run["tokens"] / 5, run)
            print(run)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
