"""What people see of a run: a page that works offline, and every plot of it as a picture."""
