"""The durable record of every release and what it cost each client."""
