"""Checks what the scripts of tools/training do beside arithmetic: PyTorch and NumPy are stand-ins
here, so that any machine can run this."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools" / "training"))
for name in ("numpy", "regex", "torch", "torch.distributed", "torch.nn", "torch.nn.functional",
             "export", "model", "precision", "tokenizer", "train"):
    sys.modules[name] = mock.MagicMock()
sys.modules["torch"].no_grad = contextlib.contextmanager(lambda: iter([None]))  # decorates, too
import data  # noqa: E402
import distil  # noqa: E402
import evaluate  # noqa: E402
import sample  # noqa: E402
import train_pair  # noqa: E402


class TrainPairTest(unittest.TestCase):
    def test_stopped_preparation_is_done_again(self):
        """Else the next start would find a tokenizer, and train from nothing."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            target = folder / "pair" / "target"
            target.mkdir(parents=True)
            (folder / "pair" / "training.json").write_text('{"step": 7, "tokens": 70}')
            (target / "config.json").write_text(json.dumps({"num_hidden_layers": 12}))
            for file in ("tokenizer.json", "tokenizer_config.json"):
                (target / file).write_text("{}")
            driver = train_pair.Driver(argparse.Namespace(
                work=folder / "work", pair=folder / "pair", profile="smoke", device="cpu"))
            driver.run = mock.Mock(side_effect=[None, KeyboardInterrupt])
            with self.assertRaises(KeyboardInterrupt):
                driver.prepare()
            driver.run = mock.Mock()
            driver.prepare()
            self.assertEqual([call.args[0] for call in driver.run.call_args_list],
                             ["resume.py", "resume.py"])
            self.assertEqual({path.name for path in driver.tokenizer.parent.iterdir()},
                             {"tokenizer.json", "tokenizer_config.json"})
            driver.run = mock.Mock()
            driver.prepare()
            driver.run.assert_not_called()


class BatchesTest(unittest.TestCase):
    def test_killed_process_is_noticed(self):
        class Mixture:
            def batch(self, step, rows, length):
                if step == 20:
                    os.kill(os.getpid(), signal.SIGKILL)
                return step, bytes(1 << 18)  # more than a pipe holds

        took = []
        with self.assertRaisesRegex(RuntimeError, "ended with exit code -9"):
            for step, _ in data.batches(Mixture(), 0, 1, 1, 1, processes=2):
                took.append(step)
        self.assertEqual(took, list(range(len(took))))


class DistilTest(unittest.TestCase):
    def run_steps(self, first, last, *options):
        """What the steps from first to last learn from."""
        learned = []
        run = mock.MagicMock(step=first, tokens=0, seconds=0)

        def as_tensors(batch, device):
            learned.append(batch)
            return mock.MagicMock(), mock.MagicMock(numel=lambda: 1)

        def sampled(path, rows, seed):
            return mock.Mock(batch=lambda number: ("sampled", seed, number))

        def texts(mixture, first, stride, *_):
            return (("text", number) for number in itertools.count(first, stride))

        with (tempfile.TemporaryDirectory() as work,
              mock.patch.multiple(distil, Run=mock.Mock(return_value=run), Sampled=sampled,
                                  as_tensors=as_tensors, batches=texts, Mixture=mock.Mock(),
                                  np=mock.Mock(**{"mean.return_value": (0.0, 0.0)}),
                                  print=mock.Mock(), create=True,
                                  head_backward=lambda *_: (mock.MagicMock(), 0, 0.0, 0.0)),
              mock.patch.object(sys, "argv", ["distil.py", "--target", "t", "--tokenizer", "t",
                                              "--work", work, "--steps", str(last), *options])):
            (Path(work) / "checkpoint.pt").touch()
            distil.main()
        return learned

    def test_goes_on_with_the_same_batches(self):
        for options in ([], ["--sampled", "rows.npz"]):
            unbroken = self.run_steps(0, 8, *options)
            self.assertEqual(len(set(unbroken)), 8)
            for stop in (3, 4):
                self.assertEqual(self.run_steps(0, stop, *options)
                                 + self.run_steps(stop, 8, *options), unbroken)


class SampleTest(unittest.TestCase):
    def test_stopped_save_keeps_the_file(self):
        def stop(file, **_):
            file.write(b"half")
            raise KeyboardInterrupt

        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "sampled.npz"
            path.write_bytes(b"all of it")
            with mock.patch.object(sample.np, "savez", stop), self.assertRaises(KeyboardInterrupt):
                sample.save(path, None, None)
            self.assertEqual(path.read_bytes(), b"all of it")
            with mock.patch.object(sample.np, "savez", lambda file, **_: file.write(b"more")):
                sample.save(path, None, None)
            self.assertEqual(path.read_bytes(), b"more")


class EvaluateTest(unittest.TestCase):
    def test_answers_are_whole_numbers(self):
        for text, answer in (("6 + 6 = 12\nAnswer: 12", "12"), ("Answer: 12.\n", "12"),
                             ("Answer: $1,200", "1200"), ("Answer: 12 apples", "12"),
                             ("Answer: 12.5", None), ("Answer: 1/2", None), ("Answer: ,", None),
                             ("The answer: 12", None)):
            self.assertEqual(evaluate.answer_of(text), answer, text)

    def test_doctests_must_run(self):
        head = 'def twice(x):\n    """\n    >>> twice(2)\n    4\n    """\n'
        for body, passes in (("    return 2 * x\n", True), ("    return x\n", False),
                             ("    print(x)\n    return 2 * x\n", False),
                             ("    import sys\n    sys.exit(0)\n", False),
                             ("    import os\n    os._exit(0)\n", False),
                             ("    return 2 * x\nimport sys\nsys.exit(0)\n", False),
                             ("    return 2 * x\nprint('a demonstration')\n", True)):
            self.assertIs(evaluate.passes(head + body, "twice"), passes, body)

    def test_prompts_that_are_too_long(self):
        pair = mock.MagicMock()
        pair.target.c.max_positions = 200
        pair.tokenizer.encode_chat.return_value = [1] * 60
        self.assertEqual(evaluate.acceptance(pair, ["Once"], 4, 0.8), (None, None))
        with mock.patch.object(evaluate, "read_documents", return_value=["Once"]):
            rows = evaluate.acceptances(pair, Path(), 1, 0.8)
        self.assertEqual(set(rows.values()), {"-, -", "-"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
