"""Values and rules with laws: no state, no time, no order of calls."""
