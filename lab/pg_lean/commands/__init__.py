"""Commands of pg-lean beyond demo, bench and report: each module has register(app), which adds its own."""
