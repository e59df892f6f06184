"""Run by tools/corpus with JAX and its CUDA plugin on PYTHONPATH: see drive.py.

XLA compiles ahead for a device that it is told of, so there need be none. Its PTX is in the folder that it dumps to: one text a
function of kernels.py, of all kernels that became of it.  A process a target: plugin and device are chosen once.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DEVICE = """gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84978434048 shared_memory_per_block_optin: 166912
  cuda_compute_capability {{ major: {major} minor: {minor} }} registers_per_core_limit: 65536 registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 patch: 0 }}
runtime_version {{ major: 13 minor: 0 patch: 0 }}
device_description_str: "GPU"
"""


def compile_for(target, stdout):
    """The child: compiles each named function and writes its PTX where it was asked for."""
    dump = pathlib.Path(tempfile.mkdtemp())
    os.environ["XLA_FLAGS"] = f"--xla_dump_to={dump} --xla_gpu_autotune_level=0"
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    import jax
    import kernels
    from jax.experimental import topologies

    jax.config.update("jax_enable_x64", True)
    major, minor = divmod(int("".join(c for c in target if c.isdigit())), 10)
    description = DEVICE.format(major=major, minor=minor)
    topology = topologies.get_topology_desc("gpu", platform="cuda", target_config=description, topology="1x1x1")
    place = jax.sharding.SingleDeviceSharding(topology.devices[0])
    answers = []
    for job in json.load(sys.stdin):
        name = job["options"][0]
        try:
            before = set(dump.glob("*.ptx"))
            shapes = [jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place) for s in kernels.SHAPES[name]]
            jax.jit(getattr(kernels, name)).lower(*shapes).compile()
            text = max(set(dump.glob("*.ptx")) - before, key=lambda path: path.stat().st_size)
            pathlib.Path(job["out"]).write_bytes(text.read_bytes())
            answers.append("")
        except Exception as error:
            answers.append(f"{type(error).__name__}: {str(error)[-600:]}")
    os.write(stdout, json.dumps(answers).encode())
    os._exit(0)


def compile_all(jobs):
    """A process a target; each answers with the errors of its modules."""
    found = {}
    for target in sorted({job["target"] for job in jobs}):
        mine = [i for i, job in enumerate(jobs) if job["target"] == target]
        sent = json.dumps([jobs[i] for i in mine])
        done = subprocess.run([sys.executable, HERE / "driver.py", target], input=sent, capture_output=True, text=True)
        answers = json.loads(done.stdout) if done.returncode == 0 else [done.stderr[-1000:]] * len(mine)
        found |= zip(mine, answers, strict=True)
    return [found[i] for i in range(len(jobs))]


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)
    compile_for(sys.argv[1], stdout)
