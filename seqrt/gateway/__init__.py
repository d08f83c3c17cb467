"""In front of workers: keys, the JSON face, and which robot goes to which worker."""
