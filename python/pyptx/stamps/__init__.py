"""`pyptx.timeline`: copies of kernels that write down when their warps come by the author's places and what they wait for.

marks.py: the author's places.  insert.py: the copy's text.  records.py: from a buffer to spans of time.  recorder.py: launches of copies.
"""
