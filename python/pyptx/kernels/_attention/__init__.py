"""What `attention` is made of.  To read it, begin with mma.py (every GPU since sm_80), then plan.py and forward.py (Hopper)."""
