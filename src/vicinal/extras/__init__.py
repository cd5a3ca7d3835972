"""Parts that no default uses; they plug in through the protocols of `vicinal.core.types`."""
