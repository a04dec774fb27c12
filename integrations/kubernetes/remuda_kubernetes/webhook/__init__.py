"""The admission webhook: what users may say about themselves in labels and annotations, and what is filled in. Pure."""
