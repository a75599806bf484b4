"""How books of earlier versions become books of this one."""
