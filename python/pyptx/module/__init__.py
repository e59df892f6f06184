"""What a PTX module holds: functions (func.py), variables (variables.py), several kernels in one text (module.py)."""
