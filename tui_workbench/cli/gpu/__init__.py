"""`gpu ...`: show, check and reserve the GPUs of compute targets."""
