"""Tables that need not fit into memory: files read by blocks, and where the blocks are worked on.

What is worked out from a block is none of this room's business.
"""
