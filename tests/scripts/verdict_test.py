"""The scripts' last line is a true verdict, also when they are interrupted.

Each case runs a copy of scripts/ in which the commands that build and test are stand-ins: `cmake
--build` starts a process of its own and waits for it, so that the test can interrupt the script in
the middle and see that nothing it started lives on.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from processes import TIME_LIMIT

SOURCE = pathlib.Path(sys.argv[1])

# A build that is told to wait says so in a file, with the number of the process it has started.
CMAKE = """#!/usr/bin/env bash
[[ $1 == --build ]] || exit 0
echo "$@" >>builds
mkdir -p build/cpu
if [[ -n ${BUILD_WAITS:-} ]]; then
  sleep 1000 &
  echo $! >started.new && mv started.new started
  wait
fi
exit "${BUILD_STATUS:-0}"
"""
# Says who it is in a file, and does not end.
WAITING = """#!/usr/bin/env bash
sleep 1000 &
echo $! >started.new && mv started.new started
wait
"""
# Says something, and in its last tool does not end.
SANITIZER = """#!/usr/bin/env bash
if [[ -n ${SANITIZER_WAITS:-} ]]; then exec "${@: -2:1}"; fi
echo "${SANITIZER_SAYS:-}"
[[ $2 != synccheck ]] || exec sleep 1000
"""
NVIDIA_SMI = "#!/usr/bin/env bash\necho 9.0\n"
EMPTY = "#!/usr/bin/env bash\n"
# Fails, and keeps an input unless it is told not to.
FUZZER = """#!/usr/bin/env bash
for flag; do
  if [[ -z ${KEEPS_NONE:-} && $flag == -artifact_prefix=* ]]; then echo >"${flag#*=}crash-new"; fi
done
exit 77
"""
CTEST = "#!/usr/bin/env bash\nexit \"${TESTS_STATUS:-0}\"\n"


class Verdict(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(SOURCE / "scripts", self.root / "scripts")
        stand_ins = self.root / "stand-ins"
        stand_ins.mkdir()
        for path, text in ((stand_ins / "cmake", CMAKE), (stand_ins / "ctest", CTEST),
                           (stand_ins / "compute-sanitizer", SANITIZER),
                           (stand_ins / "nvidia-smi", NVIDIA_SMI), (stand_ins / "nvcc", EMPTY),
                           (self.root / "scripts/setup.sh", EMPTY)):
            path.write_text(text)
            path.chmod(0o755)
        self.path = f"{stand_ins}:{os.environ['PATH']}"

    def start(self, script, *arguments, **environment):
        return subprocess.Popen([self.root / "scripts" / script, *arguments],
                                stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL,
                                env=dict(os.environ, PATH=self.path, **environment))

    def finish(self, process):
        """Exit status and last line."""
        output, _ = process.communicate(timeout=TIME_LIMIT)
        return process.returncode, output.rstrip().splitlines()[-1]

    def test_says_passed_and_failed(self):
        for environment, status, word in (({}, 0, "PASSED"), ({"BUILD_STATUS": "3"}, 3, "FAILED"),
                                          ({"TESTS_STATUS": "8"}, 1, "FAILED"),
                                          # The status of a child that a signal ended is no
                                          # interruption.
                                          ({"BUILD_STATUS": "143"}, 143, "FAILED")):
            with self.subTest(**environment):
                returned, line = self.finish(self.start("test.sh", **environment))
                self.assertEqual(returned, status)
                self.assertRegex(line, f"^cpu: {word} after")

    def test_interrupted_is_not_passed(self):
        for script, name in (("test.sh", "cpu"), ("chaos.sh", "chaos"), ("soak.sh", "soak"),
                             ("demo.sh", "demo")):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(script=script, signal=number.name):
                    started = self.root / "started"
                    started.unlink(missing_ok=True)
                    process = self.start(script, BUILD_WAITS="1")
                    while not started.exists():
                        self.assertIsNone(process.poll(), "the script ended before its build")
                    child = int(started.read_text())
                    process.send_signal(number)
                    returned, line = self.finish(process)
                    self.assertEqual(returned, 128 + number)
                    self.assertRegex(line, f"^{name}.*: INTERRUPTED after")
                    self.assertFalse(self.runs(child), "what the build had started is still there")

    def prebuild(self, *programs):
        """What gpu_check.sh takes for programs that were built. All wait."""
        prebuilt = self.root / "gpu_prebuilt"
        prebuilt.mkdir()
        (prebuilt / "outrider_cuda_backend.so").touch()
        for program in programs:
            (prebuilt / program).write_text(WAITING)
            (prebuilt / program).chmod(0o755)

    def test_gpu_check_is_interrupted_at_once(self):
        """It runs programs under `timeout`, which a terminal's Ctrl-C does not reach."""
        self.prebuild("cuda_parity_test", "gpu_bench")
        for part in ("build", "speed", "sanitize"):
            with self.subTest(part=part):
                started = self.root / "started"
                started.unlink(missing_ok=True)
                process = self.start("gpu_check.sh", part, SANITIZER_WAITS="1",
                                     GPU_CHECK_SECONDS=str(TIME_LIMIT))
                while not started.exists():
                    self.assertIsNone(process.poll(), "the script ended before its programs")
                child = int(started.read_text())
                began = time.monotonic()
                process.send_signal(signal.SIGINT)
                returned, line = self.finish(process)
                self.assertEqual(returned, 130)
                self.assertRegex(line, f"^gpu check, {part}: INTERRUPTED after")
                self.assertLess(time.monotonic() - began, 60)
                self.assertFalse(self.runs(child), "what it had started is still there")

    def test_unfinished_sanitizer_is_no_failure(self):
        self.prebuild()
        for says, status, word in (("", 0, "PASSED"), ("Invalid read", 1, "FAILED")):
            with self.subTest(says=says):
                returned, line = self.finish(self.start(
                    "gpu_check.sh", "sanitize", GPU_CHECK_SECONDS="3", SANITIZER_SAYS=says))
                self.assertEqual(returned, status)
                self.assertRegex(line, f"^gpu check, sanitize: {word} after")

    def test_goes_on_after_errors(self):
        """With the words of the tool that builds: ninja's -k takes a number, make's none."""
        (self.root / "build/gpu").mkdir(parents=True)
        for ninja, ends in ((False, " -- -k"), (True, " -- -k 0")):
            with self.subTest(ninja=ninja):
                if ninja:
                    (self.root / "build/gpu/build.ninja").touch()
                self.finish(self.start("gpu_check.sh", "prebuild"))
                last = (self.root / "builds").read_text().splitlines()[-1]
                self.assertTrue(last.endswith(ends), last)

    def test_demo_flags_need_values(self):
        for flag in ("--prompts", "--repetitions", "--device"):
            with self.subTest(flag):
                returned, line = self.finish(self.start("demo.sh", flag))
                self.assertEqual(returned, 2)
                self.assertRegex(line, "^usage: scripts/demo.sh ")

    def test_fuzz_replays_inputs_of_this_run(self):
        crashes = self.root / "build/fuzz/crashes"
        for folder in (crashes, self.root / "build/fuzz/bin"):
            folder.mkdir(parents=True)
        program = self.root / "build/fuzz/bin/config_fuzz"
        program.write_text(FUZZER)
        program.chmod(0o755)
        for old, environment, expected in ((False, {"KEEPS_NONE": "1"}, []),
                                           (True, {"KEEPS_NONE": "1"}, []),
                                           (True, {}, ["config-crash-new"])):
            with self.subTest(old=old, **environment):
                if old:
                    (crashes / "config-crash-old").touch()
                    os.utime(crashes / "config-crash-old", (1, 1))
                output, _ = self.start("fuzz.sh", "1", "config",
                                       **environment).communicate(timeout=TIME_LIMIT)
                self.assertEqual([pathlib.Path(line).name for line in output.splitlines()
                                  if line.startswith("replay: ")], expected, output)

    def run_setup(self, flag, *tools, installed=""):
        """Runs setup.sh where there are these tools alone."""
        folder = self.root / "tools"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        bash = shutil.which("bash")
        for tool in tools:
            (folder / tool).write_text(f"#!{bash}\n{installed}\n")
            (folder / tool).chmod(0o755)
        return subprocess.run([bash, SOURCE / "scripts/setup.sh", *flag], capture_output=True,
                              text=True, env={"PATH": str(folder)}, check=False,
                              timeout=TIME_LIMIT)

    def test_setup_names_packages_without_apt(self):
        run = self.run_setup([])
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"^setup: there is no apt-get here; .*\blibgrpc\+\+-dev\b")
        self.assertNotIn("command not found", run.stderr)

    def test_setup_for_programs_needs_no_help2man(self):
        installed = '[[ ${@: -1} == help2man ]] || echo installed'
        for flag, status in ((["--programs"], 0), ([], 1)):
            run = self.run_setup(flag, "dpkg-query", installed=installed)
            self.assertEqual(run.returncode, status, run.stderr)
        self.assertIn("help2man", run.stderr)

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
