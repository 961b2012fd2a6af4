"""The contract of every method: construct with what is public, ``calibrate`` to a plan, ``fit`` on a graph, predict."""
