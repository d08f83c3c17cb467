"""What each word after `seqrt` takes and does; `seqrt.cli` puts them together."""
