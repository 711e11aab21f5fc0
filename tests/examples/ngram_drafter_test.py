#!/usr/bin/env python3
"""examples/ngram_drafter.py: what it answers to each message; then attached to a real verifier,
alone and beside our drafter. The verifier accepts some of its tokens, and no greedy or seed-stable
text changes.

  ngram_drafter_test.py SOURCE_DIR BINARY_DIR
"""

import asyncio
import contextlib
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

from processes import SKIPPED, TIME_LIMIT, Processes, small_pair

try:
    import grpc  # noqa: F401
except ImportError:
    print("skipped: python3-grpcio is not installed")
    sys.exit(SKIPPED)

from outrider import AsyncClient, Client, GenerationParams, Mode, Rule, Speculation
from outrider.v1 import drafting_pb2 as pb

SOURCE, BINARIES = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "examples"))
import ngram_drafter  # noqa: E402

LIMIT = 1000  # of ids, where no verifier tells it
REPETITIVE = ("the red fox and the blue cat and the red fox and the blue cat and the red fox and "
              "the blue")


def opening(session=1, tokens=(1, 2, 3, 1, 2), kind=pb.DRAFT_KIND_ARGMAX, **plan):
    return pb.FromVerifier(open=pb.Open(session=session, token_ids=tokens, kind=kind,
                                        plan=pb.Plan(**{"round": 1, "length": 4, **plan})))


def verdict(node, following, round_=1, session=1, **plan):
    return pb.FromVerifier(verdicts=pb.VerdictBatch(verdicts=[pb.Verdict(
        session=session, round=round_, node=node, next=following,
        plan=pb.Plan(**{"round": round_ + 1, "length": 4, **plan}))]))


class AnswersTest(unittest.TestCase):
    def setUp(self):
        self.drafter = ngram_drafter.Drafter()
        self.hello = self.sent()[0].hello
        self.drafter.take(pb.FromVerifier(welcome=pb.Welcome(vocab_limit=LIMIT)))

    def sent(self):
        """What it has sent since; None is the end of its half."""
        messages = []
        while not self.drafter.outgoing.empty():
            messages.append(self.drafter.outgoing.get())
        return messages

    def drafts(self, message):
        self.drafter.take(message)
        return [draft for sent in self.sent() for draft in sent.drafts.drafts]

    def test_follows_longest_match_and_plan(self):
        [draft] = self.drafts(opening())
        self.assertEqual((draft.session, draft.round, list(draft.token_ids)), (1, 1, [3, 1, 2, 3]))
        self.assertEqual((list(draft.parents), len(draft.rows), draft.more),
                         ([0, 1, 2, 3], 0, False))
        # Two accepted, then 9; the table knows nothing after it: one token, because a draft is not
        # empty.
        [draft] = self.drafts(verdict(2, [9]))
        self.assertEqual((draft.round, list(draft.token_ids)), (2, [9]))
        self.assertEqual(self.drafter.sessions[1].tokens, [1, 2, 3, 1, 2, 3, 1, 9])
        self.assertEqual(self.drafts(verdict(0, [9], round_=2, length=0)), [])
        [draft] = self.drafts(verdict(0, [1, 2], round_=3, length=2))
        self.assertEqual(list(draft.token_ids), [3, 1])

    def test_samples_have_their_point_mass(self):
        """As often as a plan says: k sequences, or a tree, of certain tokens are one path."""
        [draft] = self.drafts(opening(kind=pb.DRAFT_KIND_SAMPLED, length=3, branching=[2, 2]))
        self.assertEqual(list(draft.token_ids), [3, 3, 1, 1, 1, 1, 2, 2, 2, 2])
        self.assertEqual(list(draft.parents), [0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
        self.assertEqual([(list(row.id_gaps), list(row.weights)) for row in draft.rows],
                         [([token], [65536]) for token in (3, 1, 2)])

    def test_never_drafts_beyond_the_vocabulary(self):
        self.assertEqual(self.drafts(opening(tokens=[LIMIT + 5, LIMIT + 5], length=1))[0].token_ids,
                         [LIMIT - 1])

    def test_takes_the_verifiers_vocabulary(self):
        self.assertTrue(self.hello.translates)
        self.drafter.take(
            pb.FromVerifier(vocabulary=pb.Vocabulary(entries=[0, 5, 6, 7, 4 * 3 + 1])))
        [message] = self.sent()
        self.assertEqual((message.match.shared, message.match.tokens), (4, 4))

    def test_refuses_sessions_beyond_its_limit(self):
        for session in range(ngram_drafter.MAX_SESSIONS):
            self.assertTrue(self.drafts(opening(session))[0].token_ids)
        [draft] = self.drafts(opening(ngram_drafter.MAX_SESSIONS))
        self.assertEqual((draft.session, draft.round, list(draft.token_ids)),
                         (ngram_drafter.MAX_SESSIONS, 1, []))
        self.assertTrue(self.drafts(opening(0))[0].token_ids, "one that it has may be opened again")
        self.assertEqual(self.drafts(verdict(0, [1], session=ngram_drafter.MAX_SESSIONS)), [])
        self.drafter.take(pb.FromVerifier(close=pb.Close(session=0)))
        self.assertEqual(self.sent()[-1].load.sessions, ngram_drafter.MAX_SESSIONS - 1)
        self.assertTrue(self.drafts(opening(ngram_drafter.MAX_SESSIONS))[0].token_ids)

    def test_leaves_with_its_last_session(self):
        self.drafts(opening())
        self.drafter.leave()
        [message] = self.sent()
        self.assertEqual((message.load.sessions, message.load.session_limit), (1, 0))
        self.assertTrue(message.load.HasField("session_limit"))
        self.assertTrue(self.drafts(verdict(0, [3]))[0].token_ids, "it drafts on")
        self.drafter.take(pb.FromVerifier(close=pb.Close(session=1)))
        self.assertIsNone(self.sent()[-1])

    def test_ignores_what_it_does_not_know(self):
        later = pb.FromVerifier.FromString(b"\x9a\x06\x02\x08\x01")  # field 99, of a later version
        for message in (later, pb.FromVerifier(drain={}), pb.FromVerifier()):
            self.drafter.take(message)
        self.assertEqual(self.sent(), [])


class PairTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.processes = self.stack.enter_context(
            Processes(self.stack.enter_context(tempfile.TemporaryDirectory())))
        self.models = small_pair(BINARIES)
        line = self.processes.start("verifier", [
            BINARIES / "outrider-verifier", "--model", self.models / "target", "--listen",
            "127.0.0.1:0", "--metrics", "", "--policy", "fixed", "--min-draft-wait", "30"],
                                    await_line=" port=").line
        self.address = "127.0.0.1:" + re.search(r" port=(\d+)", line).group(1)
        self.client = self.stack.enter_context(Client(self.address, timeout=TIME_LIMIT))
        self.ngram = self.start_ngram()

    def start_ngram(self):
        return self.processes.start("ngram",
                                    [sys.executable, "-B", SOURCE / "examples/ngram_drafter.py",
                                     "--verifier", self.address], await_line="attached")

    def drafters(self):
        return {drafter.name: drafter for drafter in self.client.status().drafters}

    def await_true(self, what, condition):
        until = time.monotonic() + TIME_LIMIT
        while not condition():
            self.assertLess(time.monotonic(), until, f"waited {TIME_LIMIT} s for {what}")
            time.sleep(0.02)

    def params(self, temperature, seed, speculation):
        return GenerationParams(max_tokens=64, temperature=temperature, seed=seed, ignore_eos=True,
                                speculation=speculation)

    def test_texts_are_exact_and_tokens_accepted(self):
        for name, temperature, drafted in [
            ("greedy", 0, Speculation(rule=Rule.BLOCK, draft_length=4)),
            ("gumbel", 0.5, Speculation(rule=Rule.GUMBEL, draft_length=4)),
        ]:
            accepted = 0
            for seed in range(3):
                plain = self.client.generate(REPETITIVE, self.params(
                    temperature, seed, Speculation(Mode.OFF, rule=drafted.rule)))
                text = self.client.generate(REPETITIVE, self.params(temperature, seed, drafted))
                self.assertEqual(text.token_ids, plain.token_ids, name)
                self.assertGreater(text.finished.speculation.drafted_tokens, 0)
                accepted += text.finished.speculation.accepted_tokens
            self.assertGreater(accepted, 0, name)
        self.assertEqual(set(self.drafters()), {"ngram"})

    def test_every_rule_takes_its_drafts(self):
        """The verifier closes the stream of a drafter whose drafts do not fit their plans."""
        for drafted in [Speculation(rule=Rule.TOKEN, draft_length=4),
                        Speculation(rule=Rule.BLOCK, draft_length=3),
                        Speculation(rule=Rule.MULTIPATH_BLOCK, draft_length=3, paths=3),
                        Speculation(rule=Rule.MULTIROUND, draft_length=2, paths=2),
                        Speculation(rule=Rule.SPECTR, tree=[3, 2, 1])]:
            end = self.client.generate(REPETITIVE, self.params(0.5, 1, drafted)).finished
            self.assertGreater(end.speculation.drafted_tokens, 0, drafted.rule)
        connected = self.drafters()["ngram"].connected_seconds
        self.assertGreater(connected, 0)
        self.assertNotIn("detached", (self.processes.folder / "ngram.log").read_text())

    def test_drafts_beside_ours(self):
        self.processes.start("drafter",
                             [BINARIES / "outrider-drafter", "--model", self.models / "drafter",
                              "--verifier", self.address, "--metrics", "", "--name", "ours"],
                             await_line=" attached ")
        self.await_true("both drafters", lambda: len(self.drafters()) == 2)
        prompts = [f"{REPETITIVE} {word}" for word in ("cat", "fox", "dog", "owl", "and", "the",
                                                       "sun", "hen")]
        plain = [self.client.generate(prompt, self.params(0, 1, Speculation(Mode.OFF))).token_ids
                 for prompt in prompts]

        async def at_once():
            drafted = self.params(0, 1, Speculation(draft_length=4))
            async with AsyncClient(self.address, timeout=TIME_LIMIT) as client:
                texts = await asyncio.gather(*(client.generate(prompt, drafted)
                                               for prompt in prompts))
            self.assertEqual([text.token_ids for text in texts], plain)

        def both_have_accepted():
            asyncio.run(at_once())
            return all(drafter.accepted_tokens > 0 for drafter in self.drafters().values())

        self.await_true("accepted tokens of both", both_have_accepted)
        self.ngram.kill()  # a drafter holds nothing that cannot be lost
        asyncio.run(at_once())
        self.await_true("its absence", lambda: set(self.drafters()) == {"ours"})
        again = self.start_ngram()
        self.await_true("its return", lambda: len(self.drafters()) == 2)
        again.send_signal(signal.SIGTERM)
        self.assertEqual(again.wait(timeout=TIME_LIMIT), 0)
        asyncio.run(at_once())

    def test_dials_again(self):
        """The verifier is restarted on the same port."""
        self.processes.running[0].terminate()
        self.processes.running[0].wait()
        self.processes.start("again", [
            BINARIES / "outrider-verifier", "--model", self.models / "target", "--listen",
            self.address, "--metrics", ""],
            await_line=" port=")
        self.await_true("its return", lambda: set(self.drafters()) == {"ngram"})

    def test_leaves_a_frozen_verifier(self):
        """One that is no longer reached closes no connection. The pings take half a minute."""
        verifier, log = self.processes.running[0], self.processes.folder / "ngram.log"
        verifier.send_signal(signal.SIGSTOP)
        try:
            self.await_true("its absence", lambda: "detached: UNAVAILABLE" in log.read_text())
        finally:
            verifier.send_signal(signal.SIGCONT)
        self.await_true("its return", lambda: log.read_text().count("attached to") == 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
