"""Find the secrets in a text, and mask them."""
