"""What every test here shares: a cache folder of the run's own."""

import atexit
import os
import shutil
import tempfile

if "PYPTX_CACHE_DIR" not in os.environ:  # before the first kernel: the library reads it once
    os.environ["PYPTX_CACHE_DIR"] = tempfile.mkdtemp(prefix="pyptx-cache-")
    atexit.register(shutil.rmtree, os.environ["PYPTX_CACHE_DIR"], ignore_errors=True)
