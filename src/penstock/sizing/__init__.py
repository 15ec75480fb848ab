"""DECIDE: plan selection, admission, provisioning, headroom: searches over placements and latency models."""
