"""Registration of RMs, their liveness, and the removal of RMs that are gone."""
