"""What becomes of a decision: its feedback is taken, combined, learned and counted, and the guardrail watches."""
