"""The attempts that run in pods: an index, their state, and the reasons why pods are pending."""
