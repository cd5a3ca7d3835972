"""Parts that no default picks; they plug in through the protocols of `vicinal.core.types`."""
