"""Values of a configuration with rules of their own: amounts, access lists, properties, limits, placement rules."""
