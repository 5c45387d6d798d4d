"""How is each request answered? One module per family of requests; each registers its functions by request code."""
