"""What `matmul` and `grouped_matmul` are made of.  To read it, begin with mma.py (every GPU since sm_80), then tiles.py and hopper.py."""
