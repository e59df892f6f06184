"""From a kernel and its arguments to a launch: specialisation, record, plan.  Knows no framework by name but to allocate.

It runs once for each signature of arguments; afterwards a call stays in C++ (python/src/launch.cpp).
"""
