"""`rowlock`: what organisers and operators type."""
