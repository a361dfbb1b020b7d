"""What lies where, what is sent, and why? Layouts, collectives with their reasons, and what other shardings would change."""
