"""Linux's own record of written pages, and what nbckpt believes of it; see docs/decisions/0093."""
