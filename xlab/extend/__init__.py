"""For those who extend the runtime: `xlab.extend.core` holds its language."""
