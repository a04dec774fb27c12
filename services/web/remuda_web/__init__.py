"""REST and the web page: what there is in the scheduler, read from followers."""
