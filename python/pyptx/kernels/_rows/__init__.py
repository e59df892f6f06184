"""What the functions over rows are made of.  To read it, begin with row.py, which names the others."""
