#!/usr/bin/env python3
"""Times forward passes of the OpenVINO runtime for cpu_race.py. optimum-intel exports the
checkpoint to the stateful model that OpenVINO GenAI runs, too: in f32, in f16 computed in bf16, or
with 8-bit weights and one scale per output row."""
import warnings

import race_turns

warnings.filterwarnings("ignore")  # the exporter's warnings about tracing
try:
    import numpy
    import openvino
    from openvino import opset13
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
except ImportError as error:
    race_turns.skip(str(error))


def exported(args):
    """The path of the exported model, which is created if it does not exist."""
    folder = args.work / f"{args.model.name}-{args.precision}-openvino"
    if not (folder / "openvino_model.xml").exists():
        quantization = (OVWeightQuantizationConfig(bits=8, sym=True) if args.precision == "int8"
                        else None)
        model = OVModelForCausalLM.from_pretrained(args.model, export=True, compile=False,
                                                   torch_dtype="float32", load_in_8bit=False,
                                                   quantization_config=quantization)
        if args.precision == "bf16":
            model.half()
        model.save_pretrained(folder)
    return folder / "openvino_model.xml"


def keep_last_row(model) -> None:
    """Computes the logits of the last token only, as OpenVINO GenAI does for a prompt."""
    product = model.output("logits").get_node().input_value(0).get_node()
    while product.get_type_name() != "MatMul":
        product = product.input_value(0).get_node()
    last = opset13.slice(product.input_value(0), [-1], [numpy.iinfo(numpy.int64).max], [1], [1])
    product.input(0).replace_source_output(last.output(0))


class Passes:
    def __init__(self, args):
        core, path = openvino.Core(), exported(args)
        settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
                    "INFERENCE_NUM_THREADS": args.threads, "ENABLE_CPU_PINNING": False}
        if args.precision != "int8":  # with 8-bit weights its default is kept
            settings["INFERENCE_PRECISION_HINT"] = args.precision
        prompt_model = core.read_model(path)
        keep_last_row(prompt_model)
        self.prompt = core.compile_model(prompt_model, "CPU", settings).create_infer_request()
        self.rows = core.compile_model(path, "CPU", settings).create_infer_request()
        self.request = self.rows
        self.held: list = []  # the value of each state with the sequences' cached context

    @staticmethod
    def inputs(sequences: int, rows: int, context: int) -> dict:
        positions = numpy.arange(context, context + rows, dtype=numpy.int64)
        tokens = (numpy.arange(sequences * rows, dtype=numpy.int64) % 300).reshape(sequences, rows)
        return {"input_ids": tokens,
                "attention_mask": numpy.ones((sequences, context + rows), numpy.int64),
                "position_ids": numpy.tile(positions, (sequences, 1)),
                "beam_idx": numpy.arange(sequences, dtype=numpy.int32)}

    def prepare(self, sequences: int, rows: int, context: int):
        self.request = self.rows if context else self.prompt
        self.request.reset_state()
        self.held = []
        if context > 0:
            self.request.infer(self.inputs(1, context, 0))
            self.held = [openvino.Tensor(numpy.repeat(state.state.data, sequences, axis=0))
                         for state in self.request.query_state()]
            self.restore()
        inputs = self.inputs(sequences, rows, context)
        return lambda: self.request.infer(inputs)

    def restore(self) -> None:
        self.request.reset_state()
        for state, held in zip(self.request.query_state(), self.held):
            state.state = held


passes = Passes(race_turns.flags(__doc__))
race_turns.serve(f"OpenVINO {openvino.__version__}", passes.prepare, passes.restore)
