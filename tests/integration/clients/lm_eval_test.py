#!/usr/bin/env python3
"""lm-eval's local-completions against a running pair: it reports the verifier's own log likelihoods
and greedy texts.

The test writes the tasks and their data file itself; nothing is downloaded.

  lm_eval_test.py SOURCE_DIR BINARY_DIR
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import urllib.request

from packages import need_packages, version
from processes import TIME_LIMIT, Processes, small_pair
from serving import ServedPair

need_packages("lm_eval", "aiohttp", "tenacity", "transformers")

ROWS = [("Once upon a time there was", " a little girl."), ("The sum of two and three is", " five"),
        ("She said:", " \"Hello, my friend\""), ("A", " b c d"), ("One. Two. Three.", " Four.")]
TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/rows.jsonl
test_split: test
output_type: {kind}
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{target}}}}"
"""
LIKELIHOOD = """target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
GENERATION = """generation_kwargs: {until: ["\\n"], max_gen_toks: 12, do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


def post(address, path, body):
    request = urllib.request.Request(f"http://{address}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIME_LIMIT) as answer:
        return json.load(answer)


def tokens_of(address, text):
    return post(address, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]


def own_likelihood(address, text, target):
    """The log likelihood from prompt_logprobs, which the client does not use, and whether the
    target is greedy."""
    ids, start = tokens_of(address, text + target), len(tokens_of(address, text))
    told = post(address, "/v1/completions", {"prompt": ids, "max_tokens": 1, "prompt_logprobs": 1})
    entries = [told["choices"][0]["prompt_logprobs"][i][str(ids[i])]
               for i in range(start, len(ids))]
    return sum(entry["logprob"] for entry in entries), all(entry["rank"] == 1 for entry in entries)


def own_text(address, text):
    """The greedy completion of a string, as the client sends it, without drafts."""
    body = {"prompt": text, "max_tokens": 12, "temperature": 0, "stop": ["\n"],
            "speculation": {"mode": "off"}}
    return post(address, "/v1/completions", body)["choices"][0]["text"]


def write_tasks(folder):
    folder.mkdir()
    rows = [json.dumps({"text": text, "target": target}) for text, target in ROWS]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    for name, kind, more in (("likelihood", "loglikelihood", LIKELIHOOD),
                             ("generation", "generate_until", GENERATION)):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, kind=kind, folder=folder)
                                             + more)


def evaluate(folder, address, model, batch_size=1, **arguments):
    """Runs both tasks and returns their answers by row."""
    os.environ.update(HF_HOME=str(folder / "cache"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                      HF_EVALUATE_OFFLINE="1")
    import lm_eval  # reads the environment when imported
    from lm_eval.tasks import TaskManager
    results = lm_eval.simple_evaluate(
        model="local-completions", tasks=["likelihood", "generation"], batch_size=batch_size,
        bootstrap_iters=0, task_manager=TaskManager(include_path=str(folder / "tasks"),
                                                    include_defaults=False), log_samples=True,
        model_args={"model": "target", "base_url": f"http://{address}/v1/completions",
                    "tokenizer": str(model), "max_length": 1024, "max_retries": 1, **arguments})

    def answers(task):
        rows = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
        assert [row["doc"]["text"] for row in rows] == [text for text, _ in ROWS], rows
        return [row["resps"][0][0] for row in rows]

    return answers("likelihood"), answers("generation")


def check(got, address, name):
    likelihoods, texts = got
    for (text, target), (told, is_greedy) in zip(ROWS, likelihoods):
        expected, expected_greedy = own_likelihood(address, text, target)
        assert abs(float(told) - expected) < 1e-3, (name, text, told, expected)
        assert str(is_greedy) == str(expected_greedy), (name, text, is_greedy)
    return texts


def without_bos(pair, folder):
    """The pair with a tokenizer that prepends no BOS token: when the client sends strings, it does
    not count one."""
    for part in ("target", "drafter"):
        shutil.copytree(pair / part, folder / part)
        config = folder / part / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "add_bos_token": False}))
    return folder


def main():
    binaries = pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as temporary, Processes(temporary) as processes:
        folder = pathlib.Path(temporary)
        write_tasks(folder / "tasks")
        models = small_pair(binaries)
        address = ServedPair(processes, binaries, models).http
        for name, arguments in (("ids", {}),
                                ("batches of ids", {"batch_size": 3, "num_concurrent": 2})):
            texts = check(evaluate(folder, address, models / "target", **arguments), address, name)
            ids = [post(address, "/v1/completions", {
                "prompt": tokens_of(address, text), "max_tokens": 12, "temperature": 0,
                "stop": ["\n"],
                "speculation": {"mode": "off"}})["choices"][0]["text"] for text, _ in ROWS]
            assert texts == ids, (name, texts, ids)
        models = without_bos(models, folder / "without_bos")
        address = ServedPair(processes, binaries, models).http
        texts = check(evaluate(folder, address, models / "target", tokenized_requests=False),
                      address, "strings")
        assert texts == [own_text(address, text) for text, _ in ROWS], texts
    print(f"{version('lm-eval')}: log likelihoods and texts of ids, batches of ids and strings")


if __name__ == "__main__":
    main()
