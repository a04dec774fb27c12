"""The effects of a proposed configuration: it is applied to a copy of the state, and the next passes are played there,
beside the same passes without it. Nothing of the live state is touched: the caller makes the copies."""
