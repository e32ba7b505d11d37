"""sordino: differentially private federated learning with adaptive noise."""
