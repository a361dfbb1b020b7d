"""What is known, as plain data: frozen dataclasses with a text form and JSON, which hold no live object and import nothing but one another."""
